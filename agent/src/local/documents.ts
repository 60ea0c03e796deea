import type { z } from 'zod';
import { structuralOf } from '../../../src/api/normal-form.ts';
import { withoutNulls } from '../../../src/api/structural.ts';
import { readYaml, YamlError } from '../../../src/yaml/documents.ts';
import { AgentError } from '../domain/agent-error.ts';
import { issueText } from '../domain/issue-text.ts';

/** Characters of a manifest. */
const MANIFEST_LIMIT = 1024 * 1024;
/** Documents of a manifest of kinds of which one file may describe several. */
const MOST_DOCUMENTS = 64;
/** Characters of a wrong value that a message repeats. */
export const SHOWN_LENGTH = 50;

export const invalidManifest = (message: string) => new AgentError('INVALID_ARGUMENT', message);

interface Reading {
  /** Brings a document into the form of the schema. */
  prepare?(document: unknown): unknown;
  /** members whose values no message repeats */
  secret: ReadonlySet<PropertyKey>;
}

/** Reads the one document of a manifest. Throws an AgentError that names the first thing that is wrong. */
export function readManifestDocument<T extends z.ZodType>(source: string, schema: T, reading: Reading): z.output<T> {
  if (source.length > MANIFEST_LIMIT)
    throw invalidManifest(`the manifest has ${source.length} characters; at most ${MANIFEST_LIMIT} are read`);
  const { prepare = (same) => same, secret } = reading;
  const document = documentOf(source, schema);
  const { data, error } = schema.safeParse(prepare(document));
  if (!error) return data;
  const issue = error.issues.find(({ code }) => code !== 'custom') ?? error.issues[0];
  const { path, text: message } = violation(issue as z.core.$ZodIssue, document, secret);
  throw invalidManifest(path ? `${path}: ${message}` : message);
}

/** Reads the documents of a manifest of which there may be several; an error says of which document it is. */
export function readDocuments<T extends z.ZodType>(source: string, schema: T, reading: Reading): z.output<T>[] {
  if (source.length > MANIFEST_LIMIT)
    throw invalidManifest(`the manifest has ${source.length} characters; at most ${MANIFEST_LIMIT} are read`);
  // A line that begins so ends a document wherever it is (YAML 1.2, 9.2).
  const parts = source.split(/^---(?=\s|$)/m).filter(hasContent);
  if (parts.length > MOST_DOCUMENTS)
    throw invalidManifest(`the manifest has ${parts.length} documents; at most ${MOST_DOCUMENTS} are read`);
  if (parts.length === 0) throw invalidManifest('the manifest is empty');
  return parts.map((part, index) => {
    try {
      return readManifestDocument(part, schema, reading);
    } catch (error) {
      if (parts.length === 1 || !(error instanceof AgentError)) throw error;
      throw invalidManifest(`document ${index + 1}: ${error.message}`);
    }
  });
}

const hasContent = (part: string): boolean => part.split('\n').some((line) => !/^\s*(#|$)/.test(line));

function documentOf(source: string, schema: z.ZodType): unknown {
  try {
    return withoutNulls(readYaml(source), structuralOf(schema));
  } catch (error) {
    if (error instanceof YamlError) throw invalidManifest(`the manifest: ${error.message}`);
    throw error;
  }
}

function violation(
  issue: z.core.$ZodIssue,
  document: unknown,
  secret: Reading['secret'],
): { path: string; text: string } {
  const path = issue.path.reduce<string>(
    (at, step) => (typeof step === 'number' ? `${at}[${step}]` : at ? `${at}.${String(step)}` : String(step)),
    '',
  );
  if (issue.code === 'unrecognized_keys') {
    const names = issue.keys.slice(0, 8).map((key) => JSON.stringify(key.slice(0, SHOWN_LENGTH)));
    return { path, text: `unknown field ${names.join(', ')}` };
  }
  const value = issue.path.reduce<unknown>(
    (at, step) => (at as Record<PropertyKey, unknown> | null | undefined)?.[step],
    document,
  );
  if (value === undefined) return { path, text: `is required: ${issueText(issue)}` };
  // A text in place of a map may be the password that belongs into it.
  const isInPlace = issue.code === 'invalid_type' && ['object', 'record', 'array'].includes(issue.expected);
  const isShown = typeof value !== 'object' && !isInPlace && !issue.path.some((step) => secret.has(step));
  return {
    path,
    text: isShown ? `${JSON.stringify(String(value).slice(0, SHOWN_LENGTH))} ${issueText(issue)}` : issueText(issue),
  };
}
