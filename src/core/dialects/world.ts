import type { CatalogWorld } from '../catalog/world.ts'

/** What this wing reaches for: what a body names by a word, a preset or a provider, it looks up. */
export type DialectWorld = CatalogWorld
