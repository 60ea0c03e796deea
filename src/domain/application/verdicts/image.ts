import { ARCHITECTURES } from '../../../api/names.ts';
import { archOf } from '../../edge-node/settings.ts';
import type { Verdict } from '../../inputs.ts';
import { IMAGE_ARCHITECTURES, imageFor } from '../../microservice/normal-form.ts';
import { registryId, v3Name } from '../../names.ts';
import { normalType, resolveRegistry } from '../../registry/index.ts';
import type { VerdictInput } from './rule.ts';

export function imageIsGiven({ entry, node }: VerdictInput): Verdict | undefined {
  const given = IMAGE_ARCHITECTURES.filter((architecture) => entry.images[architecture]);
  const archId = node ? archOf(node) : 0;
  if (imageFor(entry, archId)) return undefined;
  return {
    reason: 'ImageMissing',
    status: 400,
    code: given.length === 0 ? 'MICROSERVICE_DOES_NOT_HAVE_IMAGES' : 'MISSING_IMAGE',
    field: 'images',
    message:
      given.length === 0
        ? 'has no images'
        : `has no image for ${ARCHITECTURES[archId]}, the architecture of the node "${node && v3Name(node)}"; it has ${given.join(', ')}`,
  };
}

export function registryIsUsable({ entry, lookups }: VerdictInput): Verdict | undefined {
  const registry = resolveRegistry(lookups.find, entry.registry);
  const field = 'images.registry';
  const shown = JSON.stringify(entry.registry);
  if (!registry)
    return {
      reason: 'RegistryNotFound',
      status: 404,
      code: 'REGISTRY_NOT_FOUND',
      field,
      message: `no registry ${shown}`,
    };
  if (normalType(registry.spec.type) !== 'oci')
    return {
      reason: 'RegistryWrongType',
      status: 400,
      code: 'INVALID_REGISTRY_TYPE',
      field,
      message: `the registry ${shown} has type hub; container images need one of type oci`,
    };
  if (registryId(registry) === undefined)
    return {
      reason: 'RegistryNotReady',
      status: 409,
      code: 'REGISTRY_NOT_READY',
      field,
      message: `the registry ${shown} has no id yet`,
      passes: true,
    };
  return undefined;
}
