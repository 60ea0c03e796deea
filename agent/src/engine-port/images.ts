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
}

export interface PullRequest {
  reference: string;
  /** `os/arch[/variant]`, or empty for the machine's own */
  platform: string;
  credentials?: { username: string; password: string; host: string };
  onProgress?: (percentage: number) => void;
}
