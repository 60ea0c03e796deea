import { parseYamlFile } from '../../rules/yaml.ts';
import { requireTexts } from '../contract/text.ts';

/** Parses an uploaded file of one document whose texts can be stored unchanged. Throws a DomainError or an HttpError, both 400. */
export function parseYaml(text: string): unknown {
  const value = parseYamlFile(text);
  requireTexts(value, 'the file', 'MALFORMED_YAML');
  return value;
}
