/** A parsed YAML document of an upload, checked for its outer form. */
export interface UploadDocument {
  kind: string;
  metadata: Record<string, unknown> & { name: string };
  spec: Record<string, unknown>;
}

/**
 * The outer form of an uploaded document: kind, metadata.name, spec; `apiVersion`, when present, of one of our groups.
 * Both forms pass: that of the v3 files and that of kubectl. Throws DomainError.
 */
export function readDocument(_document: unknown, _kind: string): UploadDocument {
  throw new Error('not written yet');
}
