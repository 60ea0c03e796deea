import type { AnyRoute } from '../route.ts';

/** Every route of the facade. */
export const routes: readonly AnyRoute[] = [];
