import { type Knowledge, knowledgeResource } from '../api/v3/index.ts';
import { artifactParts } from './artifact.ts';
import { defineKind } from './definition.ts';

export const knowledgeKind = defineKind<Knowledge>()({
  key: 'knowledge',
  definition: knowledgeResource,
  ...artifactParts<Knowledge>('knowledge', knowledgeResource),
  indexes: {},
});
