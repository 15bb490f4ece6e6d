import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { type Static, Type } from '@sinclair/typebox'
import type { Gateway } from '../../../app/gateway.ts'
import { denied, invalid, notFound, requireFound } from '../../../base/errors.ts'
import { oneOf } from '../../../base/schema-builders.ts'
import { createBatch } from '../../../extensions/batches.ts'
import { type Actor, buildKeyActor } from '../../../resources/actor.ts'
import { BATCH_ENDPOINTS } from '../../../resources/files/request-lines.ts'
import { storeFile } from '../../../resources/files.ts'

/** What `gateway batches create` takes beside the file. */
export const NewBatchOfFile = Type.Object({
  key_hash: Type.String({ maxLength: 128 }),
  endpoint: oneOf(...BATCH_ENDPOINTS),
})
export type NewBatchOfFile = Static<typeof NewBatchOfFile>

/**
 * Stores a file of this machine and makes a batch of it, which the server works on. Throws 404 for
 * a missing file or key, 400 for a line that is no request, and what `createBatch` throws.
 */
export async function createBatchOfFile(
  gateway: Gateway,
  _: Actor,
  path: string,
  { key_hash, endpoint }: NewBatchOfFile,
) {
  const key = requireFound(gateway.memory.keys.get(key_hash), 'API key')
  const actor = buildKeyActor(gateway, key)
  if (actor.kind !== 'inference') throw denied('--key: expected a key for inference')
  const found = await stat(path).catch(() => undefined)
  if (!found) throw notFound(`There is no file ${path}`)
  if (!found.isFile()) throw invalid(`${path}: expected a file`)
  const input = { filename: basename(path), takesAnything: true }
  const file = await storeFile(gateway, actor, input, Bun.file(path).stream(), 'batch')
  return createBatch(gateway, actor, { endpoint, input_file_id: file.id })
}
