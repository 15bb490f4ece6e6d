import type { CatalogWorld } from '../catalog/world.ts'
import type { Plugin } from '../inference/plugin.ts'

/** What this wing reaches for: what a body names by a word, a preset, a provider or a plugin, it looks up. */
export interface DialectWorld extends CatalogWorld {
  plugins: Plugin[]
}
