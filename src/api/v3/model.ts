import type { z } from 'zod';
import type { CustomResource } from '../meta.ts';
import { oneOf } from '../schema.ts';
import { type Artifact, artifactResource } from './artifact.ts';

export const modelResource = artifactResource(
  {
    kind: 'Model',
    plural: 'models',
    singular: 'model',
    shortNames: ['mdl'],
    description: 'Weights of a model, which nodes pull and project into the containers that bind it.',
  },
  oneOf('gguf', 'safetensors', 'onnx', 'pytorch', 'tensorrt', 'unknown'),
);

export type Model = CustomResource<z.infer<typeof modelResource.spec>, NonNullable<Artifact['status']>>;
