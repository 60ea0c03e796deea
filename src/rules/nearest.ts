/** Letters that may be wrong in a name that is taken for another one. */
const WRONG_LETTERS = 2;
/** Names that are longer are compared with none. */
const COMPARED_LENGTH = 32;

/** The known name that differs least from a misspelt one. */
export function nearestOf(name: string, known: readonly string[]): string | undefined {
  if (name.length > COMPARED_LENGTH) return undefined;
  const lower = name.toLowerCase();
  const most = Math.min(WRONG_LETTERS, Math.floor(name.length / 2));
  const [nearest] = known
    .map((one) => ({ one, distance: distance(lower, one.toLowerCase()) }))
    .filter((candidate) => candidate.distance <= most)
    .sort((a, b) => a.distance - b.distance);
  return nearest?.one;
}

/** Letters that are to be inserted, removed or replaced to make one text of another. */
function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > WRONG_LETTERS) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}
