import { type PathMatch, pathTable } from '../../../../src/lib/path-pattern.ts';
import { LocalApiError } from './errors.ts';
import type { LocalRoute } from './route.ts';

/** A row of the table of paths: the routes of a path. */
export type PathRow = readonly [pattern: string, routes: readonly LocalRoute[]];

export type Router = (method: string, path: string) => { route: LocalRoute; parameters: Record<string, string> };

/** A function that finds the route of a request; of several patterns that match the path, the most specific one counts. Throws ApiError. */
export function createRouter(rows: Iterable<PathRow>): Router {
  const table = pathTable(rows);
  return (method, path) => {
    const found = mostSpecific(table, path);
    if (!found) throw new LocalApiError('NOT_FOUND', `no route ${path}`);
    const { value, parameters } = found;
    const route = value.find((one) => one.method === method);
    if (!route) throw new LocalApiError('METHOD_NOT_ALLOWED', `${method} is not possible on ${path}`);
    return { route, parameters };
  };
}

function mostSpecific<T>(table: (path: string) => Iterable<PathMatch<T>>, path: string): PathMatch<T> | undefined {
  try {
    const [first] = table(path);
    return first;
  } catch (error) {
    if (error instanceof URIError) throw new LocalApiError('INVALID_ARGUMENT', 'the path is malformed');
    throw error;
  }
}
