/** Versions of releases: semantic ones, without the leading v, so that each is one safe name of a directory. */
const VERSION = /^(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z-]{1,32}(?:\.[0-9A-Za-z-]{1,32}){0,7}))?$/;

/** The version that a text means, without a leading v and build metadata; undefined when it is none. */
export function parseVersion(text: string): string | undefined {
  const plain = text.replace(/^v/, '').split('+')[0] ?? '';
  return VERSION.test(plain) ? plain : undefined;
}

/** Negative when `a` is older than `b`: the precedence of semantic versions. */
export function compareVersions(a: string, b: string): number {
  const [coreA = '', ...labelA] = a.split('-');
  const [coreB = '', ...labelB] = b.split('-');
  return compareLists(coreA.split('.'), coreB.split('.')) || compareLabels(labelA.join('-'), labelB.join('-'));
}

/** A version with a label comes before the one without. */
function compareLabels(a: string, b: string): number {
  if (a === '' || b === '') return Number(a === '') - Number(b === '');
  return compareLists(a.split('.'), b.split('.'));
}

function compareLists(a: readonly string[], b: readonly string[]): number {
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    const [x, y] = [a[i], b[i]];
    if (x === undefined || y === undefined) return x === undefined ? -1 : 1;
    if (x === y) continue;
    const [isNumberX, isNumberY] = [/^\d+$/.test(x), /^\d+$/.test(y)];
    if (isNumberX && isNumberY) return Number(x) - Number(y) || 0;
    if (isNumberX !== isNumberY) return isNumberX ? -1 : 1;
    return x < y ? -1 : 1;
  }
  return 0;
}
