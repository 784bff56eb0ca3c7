// The examples that the page renders otherwise, by number, with the reason.

const ADDRESS = "an address without brackets is a link, as GitHub's extension says";
const STRONG = "CommonMark nests strong emphasis in strong emphasis; GitHub's parser joins the two";

const all = (reason, ...examples) => Object.fromEntries(examples.map((example) => [example, reason]));

export const reasons = {
  commonmark: all(ADDRESS, 602, 608, 611, 612),
  gfm: {
    ...all(STRONG, 398, 426, 434, 435, 436, 473, 474, 475, 477),
    ...all(ADDRESS, 610, 616, 619, 620),
  },
};
