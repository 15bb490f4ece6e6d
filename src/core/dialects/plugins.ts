import { type Static, Type } from '@sinclair/typebox'
import { open } from '../kernel/schema-builders.ts'
import { AutoBetaRouter, AutoRouter } from './plugins/routers.ts'

/** A plugin as a body has it: what stands in it depends on its `id` (wire reference C.4). One that nobody here knows has no effect. */
export const Plugin = Type.Union([
  AutoRouter,
  AutoBetaRouter,
  Type.Object({ id: Type.String({ pattern: '^(?!auto-(beta-)?router$).' }), enabled: Type.Optional(Type.Boolean()) }, open),
])
export type Plugin = Static<typeof Plugin>
