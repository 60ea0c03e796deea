/** Below this path of the public URL the provider is mounted. */
export const MOUNT = '/oidc';

/**
 * The part of a request target below the provider: `/token?a=b`. Undefined for all others, absolute targets (`http://...`) among
 * them. A proxy may or may not have removed the path of the public URL.
 */
export function belowMount(target: string, basePath: string): string | undefined {
  for (const mount of [`${basePath}${MOUNT}`, MOUNT]) {
    const rest = target.startsWith(mount) ? target.slice(mount.length) : undefined;
    if (rest === '' || rest?.startsWith('?')) return `/${rest}`;
    if (rest?.startsWith('/')) return rest;
  }
  return undefined;
}
