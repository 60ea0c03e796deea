import { bindConflict, exchanged, type PathCheck } from '../../domain/binds.ts';
import { bindRefusal, type PolicyContext, sourcesRefusal } from '../../domain/policy.ts';

/** Why paths may not be bound by where they lead now, in one sentence, or undefined. */
export function pathRefusal({ asked, own, others, isNew }: PathCheck, context: PolicyContext): string | undefined {
  const { policy, places } = context;
  const refused = sourcesRefusal(asked, context);
  if (refused) return refused;
  // The engine follows the links that it finds, and the view may name another way than the container has.
  const moved = isNew ? undefined : own.find(({ source }) => places.follow(source) !== source);
  // Where any directory may be bound, a directory may have been moved and replaced by a link.
  if (!policy.bindPrefixes) return moved && bindRefusal(moved.source, context);
  if (moved) return `${moved.source} may not be bound: it leads to ${places.follow(moved.source)} now`;
  const binds = own.map((bind) => ({ ...bind, source: places.follow(bind.source) }));
  return bindConflict({ name: '', binds }, others, isNew, places);
}

/** The first source that a process does not have mounted as it was checked, where the policy says where binds may lie. */
export function exchangedPath(
  sources: readonly string[],
  pid: number,
  { policy, places }: PolicyContext,
): string | undefined {
  const mounted = policy.bindPrefixes && pid > 0 ? places.mountedPlaces(pid) : [];
  return mounted.length > 0 ? exchanged(sources, mounted, places) : undefined;
}
