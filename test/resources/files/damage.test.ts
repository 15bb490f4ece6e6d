import { describe, expect, test } from 'bun:test'
import { examineFiles, examineHomes } from '../../../src/app/doctor.ts'
import { Cancellation } from '../../../src/base/cancellation.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { readStoredFiles } from '../../../src/extensions/stored-files.ts'
import type { TextCall } from '../../../src/language/call.ts'
import { promoteContainerFile, readContainerFile } from '../../../src/network/containers.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import type { BlobStore } from '../../../src/resources/files/blobs.ts'
import { readFile, readStored, storeFile } from '../../../src/resources/files.ts'
import { buildLine, openBatchHouse } from '../../support/batches.ts'
import { makeContainerFile } from '../../support/containers.ts'

type Damage = (bytes: Uint8Array) => Uint8Array | null

/** What can be wrong with bytes, and what is said of it. */
const DAMAGES: [name: string, damage: Damage, found: string][] = [
  ['gone', () => null, 'its bytes are missing'],
  ['cut', bytes => bytes.subarray(0, bytes.length - 1), 'were stored'],
  ['longer', bytes => Buffer.concat([bytes, Buffer.from('x')]), 'were stored'],
  [
    'changed in the last byte',
    bytes => Buffer.concat([bytes.subarray(0, -1), Buffer.from('~')]),
    'its bytes were changed',
  ],
]

/** Lets everything that is read from a store of blobs be damaged. */
function damageBlobs(blobs: BlobStore, damage: Damage): BlobStore {
  const read = async (place: Parameters<BlobStore['read']>[0]) =>
    damage(new Uint8Array(await new Response(await blobs.read(place)).arrayBuffer()))
  return {
    ...blobs,
    size: async place => (await read(place))?.length,
    read: async (place, { start, length } = { start: 0, length: Infinity }) => {
      const bytes = await read(place)
      if (!bytes) throw new Error('There is no such blob')
      return new Blob([Uint8Array.from(bytes.subarray(start, start + length))]).stream()
    },
  }
}

async function* once(text: string) {
  yield Buffer.from(text)
}

const refusal = (work: Promise<unknown>) =>
  work.then(
    () => 'taken for whole',
    thrown => (thrown instanceof GatewayError ? `${thrown.status} ${thrown.message}` : thrown),
  )

/** A call whose message has a stored file. */
const nameFile = (file_id: string) =>
  ({
    messages: [{ role: 'user', blocks: [{ type: 'file', file: { file_id } }] }],
  }) as unknown as TextCall

describe.each(DAMAGES)('S-20 a file whose bytes are %s', (_, damage, found) => {
  const damaged = expect.stringMatching(new RegExp(`^404 .* is damaged, .*${found}`))

  test('is not downloaded as if whole, sent to a model, or read by a tool', async () => {
    const { gateway, actor } = await openBatchHouse()
    const operator = getOperator(gateway)
    const input = { filename: 'a.txt', downloadable: true }
    const file = await storeFile(gateway, actor, input, once('Hello there'))
    gateway.blobs = damageBlobs(gateway.blobs, damage)
    const download = async () => {
      const { bytes } = await readFile(gateway, operator, file.id)
      return new Response(bytes).text()
    }
    expect(await refusal(download())).toEqual(damaged)
    const call = nameFile(file.id)
    const reading = { cancellation: new Cancellation(), grow: () => Promise.resolve() }
    const sent = async () => readStoredFiles(gateway, actor, call, reading)
    expect(await refusal(sent())).toEqual(damaged)
    expect(await examineFiles(gateway)).toMatchObject({
      ok: false,
      found: expect.stringContaining(found),
    })
    await gateway.close()
  })

  test('of a container is neither downloaded nor promoted', async () => {
    const { gateway, actor } = await openBatchHouse()
    const operator = getOperator(gateway)
    const { container_id, file_id } = await makeContainerFile(gateway, actor.workspace_id)
    gateway.blobs = damageBlobs(gateway.blobs, damage)
    const download = async () => {
      const { bytes } = await readContainerFile(gateway, operator, container_id, file_id)
      return new Response(bytes).text()
    }
    expect(await refusal(download())).toEqual(damaged)
    expect(await refusal(promoteContainerFile(gateway, operator, container_id, file_id))).toEqual(
      damaged,
    )
    expect(await examineHomes(gateway)).toMatchObject({ ok: false })
    await gateway.close()
  })

  test.each(['validating', 'in_progress'])(
    'ends its batch that is %s, with the reason',
    async at => {
      const { gateway, create, read, run, runner } = await openBatchHouse()
      const batch = await create([buildLine('one'), buildLine('two')])
      if (at === 'in_progress')
        await gateway.store.batches.change(batch.id, ['validating'], {
          ...{ status: 'in_progress', in_progress_at: gateway.clock.now().toISOString(), total: 2 },
        })
      gateway.blobs = damageBlobs(gateway.blobs, damage)
      await run()
      const { status, errors } = await read(batch.id)
      expect([status, errors?.map(({ message }) => message)]).toEqual([
        'failed',
        [expect.stringContaining(found)],
      ])
      await runner.stop()
      await gateway.close()
    },
  )
})

test('a part of a file is read without the rest, where its size is right', async () => {
  const { gateway, actor } = await openBatchHouse()
  const file = await storeFile(gateway, actor, { filename: 'a.txt' }, once('Hello there'))
  const part = await readStored(gateway, file, { start: 6, length: 3 })
  expect(await new Response(part).text()).toBe('the')
  const whole = await readStored(gateway, { ...file, sha256: null })
  expect(await new Response(whole).text()).toBe('Hello there')
  await gateway.close()
})

test('S-20 bytes of no file are counted, and are no damage', async () => {
  const { gateway, actor } = await openBatchHouse()
  const file = await storeFile(gateway, actor, { filename: 'a.txt' }, once('Hello there'))
  await gateway.store.files.remove(file.id, null)
  expect(await examineFiles(gateway)).toEqual({
    ...{ check: 'files', ok: true },
    found: '0 files have their bytes; 1 of no file are still to be removed',
  })
  await gateway.close()
})
