export async function* mapLines<T, U>(lines: AsyncIterable<T>, change: (line: T) => U): AsyncGenerator<U> {
  for await (const line of lines) yield change(line);
}

export async function collect<T>(lines: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const line of lines) collected.push(line);
  return collected;
}

/** A line of a log with its time before it. */
export const withTime = <T extends { ts: string; line: string }>(entry: T): T => ({
  ...entry,
  line: `${entry.ts} ${entry.line}`,
});
