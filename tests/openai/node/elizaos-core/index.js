// In place of @elizaos/core, which takes 250 MB with its dependencies: the three names that the device bridge takes
// of it. The bridge itself is elizaOS's own.

import os from "node:os";

const nothing = () => {};

export const logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
export const ModelType = { TEXT_SMALL: "TEXT_SMALL", TEXT_LARGE: "TEXT_LARGE", TEXT_EMBEDDING: "TEXT_EMBEDDING" };
export const resolveStateDir = () => process.env.HOME ?? os.tmpdir();
