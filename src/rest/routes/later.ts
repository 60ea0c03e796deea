import { HttpError } from '../../http/http-error.ts';
import { parameterNames } from '../../lib/path-pattern.ts';
import type { Verb } from '../contract/access.ts';
import { type Access, type AnyRoute, grouped, type Method, route } from '../contract/route.ts';

/**
 * Operations of the v3 API that this version does not implement: they have a path, an access rule and a response with the
 * status 501, from which a client sees what is missing.
 *
 * One line each: method, path, then `resource verb`, `authenticated` or `public`. The last path parameter names the
 * object, except for verbs that are about a collection.
 *
 * The table is empty while every operation is implemented.
 */
const TABLE: Readonly<Record<string, string>> = {};

export const laterRoutes = Object.entries(TABLE).flatMap(([tag, lines]) => {
  const rows = lines.trim().split('\n');
  const words = rows.map((row) => row.trim().split(/ +/));
  return grouped(
    tag,
    words.map(([method = '', path = '', ...access]) => later(tag, method as Method, path, access)),
  );
});

function later(tag: string, method: Method, path: string, [resource = '', verb]: string[]): AnyRoute {
  const name = parameterNames(path).at(-1);
  const isCollection = verb === 'list' || verb === 'create';
  const access: Access =
    resource === 'public' || resource === 'authenticated'
      ? resource
      : { resource, verb: verb as Verb, ...(name && !isCollection && { name }) };
  return route({
    method,
    path,
    operation: operationOf(method, path),
    summary: 'Not available in this version',
    isLater: true,
    access,
    reply: { status: 204 },
    errors: [501],
    handler() {
      throw new HttpError(
        501,
        'NOT_IMPLEMENTED',
        `${method} ${path} (${tag.toLowerCase()}) is not available in this version of the controller`,
      );
    },
  });
}

/** `GET /models/{name}/link` -> `getModelsNameLink`. */
function operationOf(method: Method, path: string): string {
  const words = path.split(/[^A-Za-z]+/).map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  return method.toLowerCase() + words.join('');
}
