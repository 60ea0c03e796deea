/**
 * Globs of file names: `*` and `?` within one segment, `**` over any number of segments, everything else as it is. The
 * time that a match takes grows with the product of both lengths, whatever the glob.
 */
export function matchesGlob(glob: string, path: string): boolean {
  return matchSegments(glob.split('/'), path.split('/'));
}

/** Whether a file is among those that the globs select; without globs, all are. */
export function isSelected(globs: readonly string[], path: string): boolean {
  return globs.length === 0 || globs.some((glob) => matchesGlob(glob, path));
}

function matchSegments(globs: readonly string[], segments: readonly string[]): boolean {
  return matchSequence(globs, segments, (glob) => glob === '**', matchSegment);
}

function matchSegment(glob: string, segment: string): boolean {
  return matchSequence(
    [...glob],
    [...segment],
    (one) => one === '*',
    (one, letter) => one === '?' || one === letter,
  );
}

/**
 * Whether a pattern of items matches a sequence, where a wild item stands for any number of items. Only the last wild
 * item has to be tried again, so there is no recursion.
 */
function matchSequence<P, T>(
  pattern: readonly P[],
  sequence: readonly T[],
  isWild: (item: P) => boolean,
  matches: (item: P, value: T) => boolean,
): boolean {
  let [at, position] = [0, 0];
  let wild: { at: number; position: number } | undefined;
  while (position < sequence.length) {
    const item = pattern[at];
    if (at < pattern.length && isWild(item as P)) wild = { at: at++, position };
    else if (at < pattern.length && matches(item as P, sequence[position] as T)) {
      at++;
      position++;
    } else if (wild) {
      wild.position++;
      at = wild.at + 1;
      position = wild.position;
    } else return false;
  }
  while (at < pattern.length && isWild(pattern[at] as P)) at++;
  return at === pattern.length;
}
