import { BUILT_IN_REGISTRIES } from '../../../src/api/names.ts';

/**
 * The number of a registry of this machine in views: a space of its own, since controllers number theirs as well. The local cache
 * is the same in both.
 */
export const localRegistryNumber = (id: number): number => (id === BUILT_IN_REGISTRIES.local.id ? id : -id);

/** Whether a number is of the machine's own space: what a controller sends never has one, or it would use the credentials of the machine. */
export const isOfMachine = (number: number): boolean => number < 0;

/** The id by which people know the registry of a view: its id on the machine, or at the controller. */
export const registryIdOf = (number: number): number => Math.abs(number);

/** The ids of registries that are defined on this machine; those below are built in. */
export const LOCAL_REGISTRY_IDS = { first: 4, last: 999_999 } as const;
