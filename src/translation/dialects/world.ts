import type { Plugin } from '../../extensions/plugin.ts'
import type { ServerTool } from '../../extensions/server-tool.ts'
import type { CatalogWorld } from '../../resources/catalog-world.ts'

/** What dialects depend on: they look up the presets, providers and plugins that a body names. */
export interface DialectWorld extends CatalogWorld {
  plugins: Plugin[]
  tools: ServerTool[]
}
