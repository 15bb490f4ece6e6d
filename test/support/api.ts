import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { GatewayError } from '../../src/core/errors.ts'
import type { Gateway } from '../../src/core/gateway.ts'
import { createApp } from '../../src/server/app.ts'

export interface Asked {
  /** JSON, unless it is a text already. */
  body?: unknown
  /** Null: none. */
  key?: string | null
}

/** Asks the API of a gateway without a server between them; with this key where none is given. */
export function apiOf(gateway: Gateway, usual: string) {
  const app = createApp(gateway)
  return async (method: string, path: string, { body, key = usual }: Asked = {}) => {
    const headers: Record<string, string> = { 'content-type': 'application/json' }
    if (key !== null) headers.authorization = `Bearer ${key}`
    const init = {
      method,
      headers,
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    }
    const response = await app.handle(new Request(`http://localhost/api/v1${path}`, init))
    return { status: response.status, json: await response.json() }
  }
}

/** The status of a refusal; undefined where there was none. */
export const refusal = (promise: Promise<unknown>): Promise<number | undefined> =>
  promise.then(
    () => undefined,
    thrown => GatewayError.from(thrown).status,
  )

/** The trail of every change in a data directory, oldest first: what was done to what. */
export function trailOf(data: string): string[] {
  const db = new Database(join(data, 'gateway.db'), { readonly: true })
  const rows = db.query('select action, resource_id from audit order by rowid').all() as {
    action: string
    resource_id: string
  }[]
  db.close()
  return rows.map(row => `${row.action} ${row.resource_id}`)
}
