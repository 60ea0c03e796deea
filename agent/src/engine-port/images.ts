/** Pulls, names and removes local images. */
export interface ImagePort {
  /** The engine's id of a local image, or undefined. */
  image(reference: string, signal?: AbortSignal): Promise<string | undefined>;
  /** Pulls, and answers the image's id. */
  pull(request: PullRequest, signal?: AbortSignal): Promise<string>;
  /** Takes an image's name away, or the image by its id. An absent image is no error. */
  removeImage(id: string, signal?: AbortSignal): Promise<void>;
  /**
   * Bytes that the removal of an image frees: of its layers that no other image has, as the engine counts them. 0 for an image that
   * is not there, undefined where the engine does not say.
   */
  imageBytes(id: string, signal?: AbortSignal): Promise<number | undefined>;
  /**
   * Gives a local image a further reference. Under one with a digest, `image` and `create` find it from then on, even
   * where the engine itself knows it by another name.
   */
  tag(id: string, reference: string, signal?: AbortSignal): Promise<void>;
  /** The names of all local images, those by digest among them. */
  imageNames(signal?: AbortSignal): Promise<string[]>;
  /** All local images, in one call of the engine. */
  listImages(signal?: AbortSignal): Promise<LocalImage[]>;
  /** The image of each container on this engine, of whatever owner, running or not. */
  imageUses(signal?: AbortSignal): Promise<ImageUse[]>;
  /**
   * Gives the engine the images of an archive: a tar in docker's form, not compressed. An archive that ends with an error leaves no
   * image behind, and the error is thrown.
   */
  loadImages(archive: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<void>;
}

/** A local image, with names and id as the engine has them. */
export interface LocalImage {
  /** `sha256:` and 64 hex digits */
  id: string;
  /** `repository:tag` */
  tags: readonly string[];
  /** `repository@sha256:...` */
  digests: readonly string[];
  /** Unix ms; undefined where the image does not say */
  createdAt?: number;
  /** bytes of its content as a registry has it; undefined where the engine does not count them */
  contentBytes?: number;
  /** bytes that it takes on the disk, with the layers that it shares; undefined where the engine does not count them */
  diskBytes?: number;
}

/** A container and the image that it was made from. */
export interface ImageUse {
  imageId: string;
  /** name of the container */
  container: string;
}

export interface PullRequest {
  reference: string;
  /** `os/arch[/variant]`, or empty for the machine's own */
  platform: string;
  credentials?: { username: string; password: string; host: string };
  onProgress?: (percentage: number) => void;
}
