import { type Model, modelResource } from '../../../api/v3/index.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { artifactParts } from './artifact.ts';

export const modelKind = defineKind<Model>()({
  key: 'models',
  definition: modelResource,
  lookedUp: true,
  ...artifactParts<Model>('models', modelResource),
  indexes: {},
});
