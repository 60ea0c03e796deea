/**
 * The image of a microservice in a cell: the one that runs, and beside it the one that is wanted, of which an equal repository is left
 * out. `running` is empty where it is not known or nothing runs.
 */
export function imageText(running: string | undefined, wanted: string | undefined): string {
  if (!running || !wanted || running === wanted) return running || wanted || '';
  const [ours, theirs] = [endOfRepository(running), endOfRepository(wanted)];
  const isSameRepository = running.slice(0, ours) === wanted.slice(0, theirs) && theirs < wanted.length;
  return `${running} (wanted ${isSameRepository ? wanted.slice(theirs + 1) : wanted})`;
}

/** Where the tag or digest of a reference begins; its length where it has none. A host may have a port. */
function endOfRepository(reference: string): number {
  const name = reference.lastIndexOf('/') + 1;
  const at = reference.slice(name).search(/[:@]/);
  return at < 0 ? reference.length : name + at;
}
