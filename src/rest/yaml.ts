import { parseAllDocuments } from 'yaml';
import { invalid } from './errors.ts';

/** Deepest nesting of a file; nothing that we read needs half of it. */
const DEPTH = 64;

/**
 * Parses an uploaded file: one document, no deeper than allowed. Errors name the line and never show the text, which may
 * hold secrets.
 */
export function parseYaml(text: string): unknown {
  let value: unknown;
  try {
    const documents = parseAllDocuments(text, { merge: true, prettyErrors: true, logLevel: 'silent' });
    if (!Array.isArray(documents) || documents.length === 0) throw invalid('the file is empty', 'MALFORMED_YAML');
    if (documents.length > 1) throw invalid('the file holds several documents, send one at a time', 'MALFORMED_YAML');
    const [document] = documents;
    const error = document?.errors[0];
    if (error) {
      const at = error.linePos?.[0];
      throw invalid(
        `the file is not valid YAML${at ? ` at line ${at.line}, column ${at.col}` : ''} (${error.code})`,
        'MALFORMED_YAML',
      );
    }
    value = document?.toJS({ maxAliasCount: 100 });
  } catch (error) {
    if (error instanceof Error && 'status' in error) throw error;
    throw invalid('the file is not valid YAML', 'MALFORMED_YAML');
  }
  if (isDeeper(value, DEPTH)) throw invalid(`the file is nested deeper than ${DEPTH} levels`, 'MALFORMED_YAML');
  return value;
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((member) => isDeeper(member, levels - 1));
}
