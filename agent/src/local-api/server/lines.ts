export async function* followedBy<T>(first: readonly T[], then: AsyncIterable<T>): AsyncGenerator<T> {
  yield* first;
  yield* then;
}

export async function* mapLines<T, U>(lines: AsyncIterable<T>, change: (line: T) => U): AsyncGenerator<U> {
  for await (const line of lines) yield change(line);
}
