import type { Plugin } from '../inference/plugin.ts'
import { autoBetaRouter, autoRouter, freeRouter } from './routers.ts'
import { web } from './web.ts'

/** Every plugin, in the order in which their stages run. */
export const PLUGINS: Plugin[] = [web, autoRouter, autoBetaRouter, freeRouter] as Plugin[]
