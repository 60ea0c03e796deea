import { type Model, modelResource } from '../api/v3/index.ts';
import { artifactParts } from './artifact.ts';
import { defineKind } from './definition.ts';

export const modelKind = defineKind<Model>()({
  key: 'models',
  definition: modelResource,
  ...artifactParts<Model>('models', modelResource),
  indexes: {},
});
