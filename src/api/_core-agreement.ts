/**
 * Documents of Secrets and ConfigMaps in the form of kubectl: the members beside metadata, and members of the metadata. kubectl,
 * files and, as far as they can say the same, JSON bodies accept or refuse each of them.
 */
export interface CoreCase {
  name: string;
  document: Record<string, unknown>;
  metadata: Record<string, unknown>;
  /** by kubectl */
  accepted: boolean;
  /** why REST refuses what kubectl accepts */
  differs?: string;
}

type Fields = Record<string, unknown>;

export const coreAccepts = (name: string, document: Fields, metadata: Fields = {}): CoreCase => ({
  name,
  document,
  metadata,
  accepted: true,
});
export const coreRefuses = (name: string, document: Fields, metadata: Fields = {}): CoreCase => ({
  name,
  document,
  metadata,
  accepted: false,
});
export const coreDiffers = (name: string, document: Fields, differs: string): CoreCase => ({
  name,
  document,
  metadata: {},
  accepted: true,
  differs,
});
