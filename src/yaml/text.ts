import { stringify } from 'yaml';

/** A value as YAML, for people. */
export const yamlText = (value: unknown): string => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
