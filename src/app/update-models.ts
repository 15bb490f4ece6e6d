import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { Cancellation } from '../base/cancellation.ts'
import { GatewayError, invalid } from '../base/errors.ts'
import { giveToOwner } from '../base/owner.ts'
import { findSchemaIssue } from '../base/schema.ts'
import { UsdPerMillionTokens } from '../config/prices.ts'
import { Deadline } from '../network/answer.ts'
import {
  type BuiltInModels,
  locateCatalog,
  openSignedCatalog,
} from '../resources/models/built-in.ts'
import type { Gateway } from './gateway.ts'

/** In bytes. The built-in catalogue has half a million. */
const LARGEST = 32 * 1024 * 1024

/** Milliseconds. */
const LIMITS = { firstByte: 30_000, idle: 30_000, total: 300_000 }

/** What has been installed. */
interface UpdatedModels {
  file: string
  generated: string
  /** The day of the data that was used before. */
  before: string
  models: number
}

/**
 * Installs the signed data of models that a file or an address has in a data directory, where the
 * next program on it reads it. Throws `invalid_request` for data that is damaged, older than what is
 * used, or signed by none of `catalog.public_keys`, and 502 where the address does not answer with
 * it: then nothing changes.
 */
export async function updateModels(
  gateway: Gateway,
  data: string,
  source: string,
): Promise<UpdatedModels> {
  const { file, keys } = locateCatalog(data, gateway.config)
  const bytes = /^https?:\/\//.test(source) ? await fetchFile(gateway, source) : readLocal(source)
  const before = gateway.catalog.getBuiltIn().generated
  const { generated, rows } = openNamed(source, () => {
    const models = openSignedCatalog(bytes, keys)
    checkModels(models, before)
    return models
  })
  replaceFile(file, bytes)
  return { file, generated, before, models: rows.size }
}

// Whole or not at all, and through no link that somebody has laid there.
function replaceFile(file: string, bytes: Buffer): void {
  const written = `${file}.new`
  rmSync(written, { force: true })
  writeFileSync(written, bytes, { flag: 'wx', mode: 0o600, flush: true })
  giveToOwner(written)
  renameSync(written, file)
}

function openNamed<Result>(source: string, open: () => Result): Result {
  try {
    return open()
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    throw error.with({ message: `${source}: ${error.message}` })
  }
}

function checkModels({ rows, generated }: BuiltInModels, before: string): void {
  if (generated < before)
    throw invalid(`it is of ${generated}, older than what is used (${before})`)
  for (const { id, endpoints } of rows.values())
    for (const { provider, prices } of endpoints) {
      const issue = prices && findSchemaIssue(UsdPerMillionTokens, prices)
      if (issue)
        throw invalid(
          `${id} at ${provider} has a price that this version does not know: ${issue.path}`,
        )
    }
}

function readLocal(path: string): Buffer {
  try {
    if (statSync(path).size <= LARGEST) return readFileSync(path)
  } catch (cause) {
    throw new GatewayError('invalid_request', `${path}: the file cannot be read`, { cause })
  }
  throw invalid(`${path}: expected at most ${LARGEST} bytes`)
}

/** Fetches a file. A redirect is not followed: the operator has not named its host. */
async function fetchFile({ egress }: Gateway, url: string): Promise<Buffer> {
  const deadline = new Deadline(new Cancellation(), LIMITS)
  try {
    const incoming = await egress.send(
      { method: 'GET', url, headers: { 'user-agent': 'gateway' }, body: '' },
      deadline.attempt,
    )
    if (incoming.status !== 200) throw new Error(`it answers ${incoming.status}`)
    const pieces: Uint8Array[] = []
    let size = 0
    for (let piece = await incoming.read(); piece; piece = await incoming.read()) {
      deadline.touch(piece.length)
      pieces.push(Buffer.from(piece))
      size += piece.length
      if (size > LARGEST) throw new Error(`it has more than ${LARGEST} bytes`)
    }
    deadline.close()
    return Buffer.concat(pieces)
  } catch (cause) {
    deadline.abort()
    const { message } = cause instanceof Error ? cause : new Error('it does not answer')
    throw new GatewayError('provider_unavailable', `${url}: ${message}`, { cause })
  }
}
