import type { Plugin } from '../plugin.ts'
import { bodybuilderRouter } from './bodybuilder-router.ts'
import { contextCompression } from './context-compression.ts'
import { fileParser } from './file-parser.ts'
import { fusion } from './fusion.ts'
import { moderation } from './moderation.ts'
import { paretoRouter } from './pareto-router.ts'
import { responseHealing } from './response-healing.ts'
import { autoBetaRouter, autoRouter, freeRouter } from './routers.ts'
import { switchyardRouter } from './switchyard-router.ts'
import { web } from './web.ts'
import { webFetch } from './web-fetch.ts'

/** Every plugin, in the order in which their stages run. */
export const PLUGINS: Plugin[] = [
  web,
  webFetch,
  fusion,
  fileParser,
  moderation,
  contextCompression,
  responseHealing,
  autoRouter,
  autoBetaRouter,
  freeRouter,
  paretoRouter,
  switchyardRouter,
  bodybuilderRouter,
] as Plugin[]
