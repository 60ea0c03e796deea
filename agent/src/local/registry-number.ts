import { BUILT_IN_REGISTRIES } from '../../../src/api/names.ts';

/**
 * The number of a registry of this machine in views: a space of its own, since controllers number theirs as well. The built-in ones are
 * the same in both.
 */
export const localRegistryNumber = (id: number): number =>
  Object.values(BUILT_IN_REGISTRIES).some((each) => each.id === id) ? id : -id;
