/** The numbers of a list of CPUs such as `0-2,4`. */
export function cpusIn(list: string): number[] {
  return list.split(',').flatMap((part) => {
    const [first = Number.NaN, last = first] = part.split('-').map(Number);
    if (!(first <= last) || last - first > 4096) return [];
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });
}
