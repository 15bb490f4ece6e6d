import type { CatalogWorld } from '../catalog/world.ts'
import type { Plugin } from '../inference/plugin.ts'
import type { ServerTool } from '../inference/server-tool.ts'

/** What dialects depend on: they look up the presets, providers and plugins that a body names. */
export interface DialectWorld extends CatalogWorld {
  plugins: Plugin[]
  tools: ServerTool[]
}
