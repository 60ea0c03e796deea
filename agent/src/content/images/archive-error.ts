/** An archive is not loaded. The subject of the message is `it`. */
export class ArchiveError extends Error {
  override name = 'ArchiveError';
}
