import type { Gateway } from '../../src/app/gateway.ts'
import { createApp } from '../../src/server/app.ts'

const apps = new WeakMap<Gateway, ReturnType<typeof createApp>>()

/** Returns the app of a gateway: one for its whole life, as a server has. */
export function getApp(gateway: Gateway): ReturnType<typeof createApp> {
  const app = apps.get(gateway) ?? createApp(gateway)
  apps.set(gateway, app)
  return app
}
