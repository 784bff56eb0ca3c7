//! The table of settings: the one place where a setting is written.
//!
//! To add a setting, add one row. [`key`](crate::key) makes its [`Key`](crate::Key), names, flag
//! and help of it; [`settings`](crate::settings) makes the field of
//! [`Settings`](crate::Settings) and its resolution.
//!
//! ```text
//! /// The line of `--help`, which is the field's documentation too
//! #[setting(Audience, "PLACEHOLDER", option = value, …)]      options: the fields of `key::Row`
//! Key => field: Type = reader(bounds);               reader: a method of `layers::Layers`
//! ```
//!
//! - File, environment and flags spell the field's name each in its own way: `data_dir`,
//!   `HOB_DATA_DIR`, `--data-dir`. `name` overrides the field's name.
//! - Rows are resolved in this order: a default may use the fields of earlier rows.

/// Calls `$consumer!` with all rows.
macro_rules! settings_table {
    ($consumer:ident) => { $consumer! {
        /// Read settings from this TOML file
        #[setting(Everyone, "FILE")]
        Config => config: Option<PathBuf> = config_file();

        /// Serve on this address; port 0 picks a free one
        #[setting(Daemon, "IP:PORT", default = "127.0.0.1:8642")]
        Listen => listen: SocketAddr = value(parse::address);

        /// Talk to the daemon at this address instead of the one that runs on the data directory
        #[setting(Client, "IP:PORT")]
        Address => address: Option<SocketAddr> = optional(parse::address);

        /// GGUF file, or the name of one that `hob models` lists; the bundled model unless given
        #[setting(Daemon, "PATH|NAME")]
        Model => model: ModelChoice = model();

        /// Answer with the engine at this address instead of one in this process: any server of OpenAI's
        /// API, such as vLLM, SGLang or llama-server
        #[setting(Daemon, "URL")]
        Upstream => upstream: Option<String> = optional(parse::upstream);

        /// File that holds the token of that engine; hobd sends it as a bearer token
        #[setting(Daemon, "FILE")]
        UpstreamTokenFile => upstream_token_file: Option<PathBuf> = optional_path();

        /// Longest silence of that engine; a prompt must be computed within it
        #[setting(Daemon, "SECS", name = "upstream_timeout_secs", default = "600")]
        UpstreamTimeout => upstream_timeout: Duration = seconds();

        /// Generate for the elizaOS agent at this address, through the agent's device bridge
        #[setting(Daemon, "URL")]
        DeviceBridge => device_bridge: Option<String> = optional(parse::device_bridge);

        /// File that holds the agent's pairing token
        #[setting(Daemon, "FILE")]
        DeviceBridgeTokenFile => device_bridge_token_file: Option<PathBuf> = optional_path();

        /// Render prompts with the Jinja template in this file instead of the model's own
        #[setting(Daemon, "FILE")]
        ChatTemplate => chat_template: Option<PathBuf> = optional_path();

        /// Add the LoRA adapter in this GGUF file to the model; FILE=0.5 adds it with this factor (repeat
        /// or separate by commas)
        #[setting(Daemon, "FILE[=SCALE]", is_list = true)]
        Lora => lora: Vec<Adapter> = adapters();

        /// Let requests add the LoRA adapter in this GGUF file, by this name or by that of the file (repeat
        /// or separate by commas)
        #[setting(Daemon, "[NAME=]FILE", is_list = true)]
        Adapters => adapters: Vec<NamedAdapter> = named_adapters();

        /// Store texts of conversations, the token, models and saved KV here
        #[setting(Everyone, "DIR")]
        DataDir => data_dir: PathBuf = path(|user_dirs| user_dirs.data_dir.clone());

        /// Save KV here instead of below the data directory
        #[setting(Everyone, "DIR")]
        SlotsDir => slots_dir: PathBuf = path(|_| paths::slots_dir(&data_dir));

        /// Tokens of context that all slots share; auto takes as many as the model was trained with, if
        /// memory allows
        #[setting(Daemon, "TOKENS|auto", default = "auto")]
        Ctx => ctx: ContextChoice = context();

        // llama.cpp has 256 sequences: at least four are for prefixes, and five are the engine's own.
        /// Conversations that are hot at the same time
        #[setting(Daemon, "N", default = "4")]
        Slots => slots: u32 = number(1..=247);

        /// Compute threads; 0 chooses
        #[setting(Daemon, "N", default = "0")]
        Threads => threads: u32 = number(0..=1024);

        /// File that holds the access token
        #[setting(Everyone, "FILE")]
        TokenFile => token_file: PathBuf = path(|_| paths::token_file(&data_dir));

        /// Write one JSON line here once requests are served
        #[setting(Daemon, "FILE")]
        ReadyFile => ready_file: Option<PathBuf> = optional_path();

        /// Let web pages of this origin call the API; localhost: those of this machine, at any port (repeat
        /// or separate by commas)
        #[setting(Daemon, "ORIGIN", is_list = true)]
        AllowOrigin => allow_origin: Vec<String> = texts(parse::list);

        /// Accept this Host header beside the loopback ones (repeat or separate by commas)
        #[setting(Daemon, "HOST", is_list = true)]
        AllowHost => allow_host: Vec<String> = texts(parse::hosts);

        /// Let every program on this machine, of any user, use these routes without the token: ollama
        /// (those of Ollama's server, for clients that can send none) or none; needs a loopback address for
        /// listen. Web pages stay out
        #[setting(Daemon, "ollama|none", default = "none")]
        AllowWithoutToken => allow_without_token: OpenRoutes = open_routes(listen);

        /// Memory for parked KV; 0 means an eighth of RAM
        #[setting(Daemon, "BYTES", default = "0")]
        MemoryBudgetBytes => memory_budget_bytes: u64 = bytes(0);

        /// Requests that may wait; hobd refuses further ones
        #[setting(Daemon, "N", default = "32")]
        Queue => queue: usize = number(1..=100_000);

        /// Park a conversation after this idle time: it leaves llama.cpp's cache, and its next turn restores it
        #[setting(Daemon, "SECS", name = "idle_park_secs", default = "3600")]
        IdlePark => idle_park: Duration = seconds();

        /// Type of the K cache
        #[setting(Daemon, "TYPE", default = "f16")]
        CacheTypeK => cache_type_k: CacheType = cache_type();

        /// Type of the V cache
        #[setting(Daemon, "TYPE", default = "f16")]
        CacheTypeV => cache_type_v: CacheType = cache_type();

        /// Layers of the model on graphics cards and the like; auto takes as many as fit, 0 none
        #[setting(Daemon, "N|auto", default = "auto")]
        GpuLayers => gpu_layers: GpuLayers = gpu_layers();

        /// Use this device, such as CUDA0 (repeat or separate by commas); all graphics cards unless
        /// given
        #[setting(Daemon, "NAME", is_list = true)]
        Device => device: Vec<String> = texts(parse::devices);

        /// Parts of the layers that the devices get, in whole numbers, such as 3,1; by their free
        /// memory unless given
        #[setting(Daemon, "N,N", is_list = true)]
        TensorSplit => tensor_split: Vec<u32> = tensor_split(gpu_layers);

        /// Keep the KV of a layer on the layer's device
        #[setting(Daemon, "BOOL", default = "true")]
        KvOffload => kv_offload: bool = switch();

        /// Speculative decoding: compute guessed tokens of answers ahead, where that is faster: auto or off
        #[setting(Daemon, "auto|off", default = "auto")]
        Draft => draft: DraftChoice = draft();

        /// Guess tokens of answers with this small model too, which must have the model's vocabulary; a GGUF
        /// file, or the name of one that `hob models` lists
        #[setting(Daemon, "PATH|NAME")]
        DraftModel => draft_model: Option<ModelChoice> = optional_model();

        /// Guess tokens of answers with the model's own MTP heads too, if its file has some and there is no draft
        /// model
        #[setting(Daemon, "BOOL", default = "true")]
        DraftMtp => draft_mtp: bool = switch();

        /// What happens to a conversation that has more tokens than cells: parts of it leave the cells and come
        /// back when they are needed (restore), leave but for a note of each (breadcrumb), leave for good
        /// (discard), or the conversation is refused (off)
        #[setting(Daemon, "restore|breadcrumb|discard|off", default = "restore")]
        Eviction => eviction: EvictionChoice = eviction();

        /// Find evicted parts of conversations by meaning too, with this embedding model; a GGUF file, or the
        /// name of one that `hob models` lists
        #[setting(Daemon, "PATH|NAME")]
        RecallModel => recall_model: Option<ModelChoice> = optional_model();

        /// What to log, such as info or hob_runtime=debug
        #[setting(Daemon, "FILTER", default = "info")]
        Log => log: String = value(parse::text);

        /// Largest request body
        #[setting(Daemon, "BYTES", default = "8MiB")]
        MaxBodyBytes => max_body_bytes: usize = bytes(1024);

        /// Longest time for a request's body to arrive
        #[setting(Daemon, "SECS", name = "request_timeout_secs", default = "600")]
        RequestTimeout => request_timeout: Duration = seconds();

        // The minimum: a sweep reads every slot file.
        /// Sweep saved KV this often: expire, collect, round, compress, enforce the quota; 60s at least
        #[setting(Daemon, "TIME", default = "5m",
            eliza_variable_ms = Some("ELIZA_LOCAL_EVICTION_INTERVAL_MS"))]
        SweepInterval => sweep_interval: Duration = duration_of_at_least(Duration::from_secs(60));

        // The minimum: a round wakes the processor.
        /// Refresh warm prefixes this often; 30s at least
        #[setting(Daemon, "TIME", default = "4m",
            eliza_variable_ms = Some("ELIZA_LOCAL_KEEPALIVE_INTERVAL_MS"))]
        KeepaliveInterval => keepalive_interval: Duration =
            duration_of_at_least(Duration::from_secs(30));

        /// Free the weights after this idle time, once all KV is on disk; 0 never does
        #[setting(Daemon, "TIME", default = "0")]
        UnloadAfter => unload_after: Option<Duration> = duration_unless_zero();

        /// Do not keep prefixes warm, nor compute typed words, on a battery below this percentage;
        /// 0 always does
        #[setting(Daemon, "N", default = "20")]
        KeepaliveBatteryPercent => keepalive_battery_percent: u8 = number(0..=100);

        /// Maximum number of learned prefixes: beginnings that many prompts share stay warm without a
        /// profile; 0 learns none and drops those that were learned
        #[setting(Daemon, "N", default = "4")]
        LearnedPrefixes => learned_prefixes: usize = number(0..=64);

        /// Maximum tokens of all learned prefixes together; three quarters of the context at most
        #[setting(Daemon, "TOKENS", default = "16384")]
        LearnedPrefixTokens => learned_prefix_tokens: usize = number(0..=1 << 24);

        /// Compute the words of a message while the user types it
        #[setting(Daemon, "BOOL", default = "true")]
        TypeAhead => type_ahead: bool = switch();

        /// Keep KV of class short this long after its last use
        #[setting(Everyone, "TIME", default = "5m")]
        TtlShort => ttl_short: Duration = duration();

        /// Keep KV of class long this long after its last use
        #[setting(Everyone, "TIME", default = "1h")]
        TtlLong => ttl_long: Duration = duration();

        /// Keep KV of class extended this long after its last use
        #[setting(Everyone, "TIME", default = "24h")]
        TtlExtended => ttl_extended: Duration = duration();

        /// TTL class of conversations with stored text: short, long, extended or permanent
        #[setting(Daemon, "CLASS", default = "permanent")]
        DefaultTtl => default_ttl: TtlClass = ttl_class();

        /// Maximum KV on disk; 0 means a tenth of the free disk, 32 GiB at most, and leaves the last
        /// 10 GiB free
        #[setting(Daemon, "BYTES", default = "0")]
        SlotsQuotaBytes => slots_quota_bytes: u64 = bytes(0);

        /// Maximum number of files that one sweep removes
        #[setting(Daemon, "N", default = "4096")]
        SweepRemovals => sweep_removals: usize = number(1..=1 << 30);

        /// Compress KV after this idle time; 0 never does
        #[setting(Daemon, "TIME", default = "1h")]
        CompressAfter => compress_after: Option<Duration> = duration_unless_zero();

        /// Round the KV of conversations that were unused for the idle time of compress-after, to half the bytes
        /// or a quarter: off, q8 or q4
        #[setting(Daemon, "off|q8|q4", default = "off")]
        SlotsLossy => slots_lossy: LossyChoice = lossy();

        /// Encrypt saved KV and the names of its conversations
        #[setting(Everyone, "BOOL", default = "false")]
        SlotsEncrypt => slots_encrypt: bool = switch();

        /// File that holds the key of encrypted KV; hobd creates a missing one
        #[setting(Everyone, "FILE")]
        SlotsKeyFile => slots_key_file: PathBuf = path(|_| paths::slots_key_file(&data_dir));

        /// Share saved conversations with other hobds here, their text too: a directory that all see, as
        /// file:///path, or S3-compatible storage, as s3://bucket/prefix, with the credentials in
        /// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
        #[setting(Daemon, "URL")]
        Shared => shared: Option<SharedPlace> = optional(parse::shared);

        /// Address of the S3-compatible storage; Amazon's of the region in AWS_REGION unless given
        #[setting(Daemon, "URL")]
        SharedEndpoint => shared_endpoint: Option<String> = optional(parse::endpoint);

        /// Synthesise speech with this command, run without a shell: it writes WAV to its output,
        /// and gets {voice} and {text} in its arguments, the text also on its input; off for none
        #[setting(Daemon, "COMMAND", default = "espeak-ng -v {voice} --stdin --stdout")]
        VoiceCommand => voice_command: Vec<String> = texts(voice::command);

        /// Voice of the command, unless a request names another
        #[setting(Daemon, "NAME", default = "en")]
        VoiceName => voice_name: String = value(parse::text);

        /// Phrases to say while the model thinks (repeat or separate by |)
        #[setting(Daemon, "TEXT", is_list = true, default = "\
            One second.|Let me see.|Hm, let me think.|Just a moment.|Let me have a look.")]
        VoicePhrases => voice_phrases: Vec<String> = texts(voice::phrases);

        /// Maximum synthesised sound in the cache, in memory and on disk
        #[setting(Daemon, "BYTES", default = "16MiB")]
        VoiceCacheBytes => voice_cache_bytes: u64 = bytes(1 << 16);

        /// Recognise speech with this command, run without a shell: it reads WAV from its input and
        /// writes text to its output; off for none
        #[setting(Daemon, "COMMAND", default = "off")]
        VoiceRecognizer => voice_recognizer: Vec<String> = texts(voice::command);

        /// Recognise speech while it is spoken with this command, run without a shell: it reads
        /// 16 kHz mono PCM from its input and writes its transcript as a line whenever it changes;
        /// off for none
        #[setting(Daemon, "COMMAND", default = "off")]
        VoiceRecognizerStream => voice_recognizer_stream: Vec<String> = texts(voice::command);

        /// Read profiles, the reusable beginnings of prompts, from here
        #[setting(Everyone, "DIR")]
        ProfilesDir => profiles_dir: PathBuf = path(UserDirs::profiles_dir);
    } };
}

pub(crate) use settings_table;
