import { type Knowledge, knowledgeResource } from '../../../api/v3/index.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { artifactParts } from './artifact.ts';

export const knowledgeKind = defineKind<Knowledge>()({
  key: 'knowledge',
  definition: knowledgeResource,
  lookedUp: true,
  ...artifactParts<Knowledge>('knowledge', knowledgeResource),
  indexes: {},
});
