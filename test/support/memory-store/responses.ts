import { notFound } from '../../../src/base/errors.ts'
import { countBlocks } from '../../../src/resources/files/quota.ts'
import type { ResponseStore } from '../../../src/resources/responses/store.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import { countEviction } from './evictions.ts'
import type { Connection, Memory } from './memory.ts'

/** Responses in memory, and where their items are. */
export const createMemoryResponseStore = (connection: Connection): ResponseStore => ({
  insert: (response, items, judge) =>
    connection.write(memory => {
      mustBeLive(memory, response.workspace_id)
      judge(computeUse(memory, response.workspace_id))
      memory.responses.insert(response.id, response)
      addItems(memory, response, items)
    }),
  end: ({ id, ...ended }, items, entry) =>
    connection.write(memory => {
      const response = memory.responses.get(id)
      if (response?.status !== 'queued') return false
      memory.responses.update(id, ended)
      addItems(memory, response, items)
      if (entry) addAudit(memory, entry)
      return true
    }),
  find: id => connection.read(({ responses }) => responses.get(id)),
  findByItem: (key_hash, item_id) =>
    connection.read(({ responses, responseItems }) => {
      const place = responseItems.get(nameItem(key_hash, item_id))
      return place && responses.get(place.response_id)
    }),
  computeUse: workspace_id => connection.read(memory => computeUse(memory, workspace_id)),
  remove: (id, entry) =>
    connection.write(memory => {
      if (!memory.responses.has(id)) throw notFound('Response not found')
      memory.responses.remove(id)
      addAudit(memory, entry)
    }),
  removeBefore: (time, now) =>
    connection.write(memory => {
      const old = memory.responses.all(({ created_at }) => created_at < time).slice(0, 1_000)
      for (const { id } of old) memory.responses.remove(id)
      countEviction(memory, { kind: 'responses', reason: 'age', rows: old.length }, now)
      return old.length
    }),
})

const nameItem = (key_hash: string, item_id: string) => `${key_hash} ${item_id}`

function addItems(
  { responseItems }: Memory,
  { id, key_hash }: { id: string; key_hash: string },
  items: string[],
): void {
  for (const item of items) {
    const name = nameItem(key_hash, item)
    if (responseItems.has(name)) responseItems.update(name, { response_id: id })
    else responseItems.insert(name, { response_id: id })
  }
}

const computeUse = ({ responses }: Memory, workspace_id: string): number =>
  responses
    .all(response => response.workspace_id === workspace_id)
    .reduce((sum, { size_bytes }) => sum + countBlocks(size_bytes), 0)
