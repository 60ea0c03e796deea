import type { MicroserviceEntry } from '../../api/v3/index.ts';

/** What an uploaded Microservice document asks for. */
export interface MicroserviceUpload {
  entry: MicroserviceEntry;
  /** from `app/ms` or spec.application */
  application?: string;
  rebuild: boolean;
}

/** An uploaded Microservice document (already parsed YAML); `name` is the entry's name on an update. */
export function readMicroserviceUpload(
  _document: unknown,
  _options?: { name?: string; application?: string },
): MicroserviceUpload {
  throw new Error('not written yet');
}
