import { readYaml, YamlError, yamlDocuments } from '../yaml/documents.ts';
import { invalid } from './errors.ts';

/** Parses an uploaded file of one document (src/yaml/documents.ts). Throws a DomainError. */
export const parseYamlFile = (text: string): unknown => orMalformed(() => readYaml(text));

/** The documents of a file of the caller's own machine, each a function that reads it. Throws a DomainError, as do these functions. */
export const parseYamlDocuments = (text: string): (() => unknown)[] =>
  orMalformed(() => yamlDocuments(text)).map((read) => () => orMalformed(read));

function orMalformed<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof YamlError) throw invalid(error.message, undefined, 'MALFORMED_YAML');
    throw error;
  }
}
