import type { z } from 'zod';
import type { CustomResource } from '../meta.ts';
import { text } from '../schema.ts';
import { type Artifact, artifactResource } from './artifact.ts';

/** The formats that a Knowledge can name; any other text counts as `unknown`. */
export const KNOWLEDGE_FORMATS: ReadonlySet<string> = new Set([
  'markdown',
  'pdf',
  'jsonl',
  'parquet',
  'arrow',
  'sqlite',
  'faiss',
  'chroma',
  'lance',
]);

export const knowledgeResource = artifactResource(
  {
    kind: 'Knowledge',
    plural: 'knowledge',
    singular: 'knowledge',
    shortNames: ['kn'],
    description: 'Documents or a data set, which nodes pull and project into the containers that bind it.',
  },
  text({ max: 32 }),
);

export type Knowledge = CustomResource<z.infer<typeof knowledgeResource.spec>, NonNullable<Artifact['status']>>;
