import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineFiles, examineHomes } from '../../../src/app/doctor.ts'
import { openGateway } from '../../../src/app/gateway.ts'
import { promoteContainerFile, sweepBlobs } from '../../../src/network/containers.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { listFiles, storeFile } from '../../../src/resources/files.ts'
import { makeHome } from '../../support/containers.ts'
import { LONG } from '../../support/random.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-killed-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const SCRIPT = join(import.meta.dir, '../../support/killed-files.ts')

/** Makes a data directory with a container, and kills a process in it at this step. */
async function kill(step: string, work: string) {
  const data = mkdtempSync(join(root, 'data-'))
  const before = await openGateway({ data })
  await makeHome(before, before.memory.owner.workspace_id, 'mine', { 'a.txt': 'Hello' })
  await before.close()
  const child = Bun.spawn([process.execPath, SCRIPT, step, data, work], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await child.exited
  expect(child.signalCode).toBe('SIGKILL')
  return { data, gateway: await openGateway({ data }) }
}

const listNames = (directory: string) =>
  readdirSync(directory, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile())

/** The steps, and whether the file is there when the process was killed at them. */
const STEPS: [string, boolean][] = [
  ['begun', false],
  ['created', false],
  ['half', false],
  ['written', false],
  ['published', false],
  ['inserted', true],
  ['recorded', true],
  ['kept', true],
  ['answered', true],
]

/** Those that differ most; the others take as long and are tried with GATEWAY_TEST_LONG. */
const MAIN = ['half', 'published', 'inserted', 'answered']
const TRIED = STEPS.filter(([step]) => LONG || MAIN.includes(step))

// What comes after the beginning is the same code: each step is tried in one of them, by turns.
describe.each(['upload', 'promotion'])('an %s', work => {
  const turn = work === 'upload' ? 0 : 1
  test.each(TRIED.filter((_, i) => LONG || i % 2 === turn))(
    'that is killed when it has %s is there: %p',
    async (step, isThere) => {
      const { data, gateway } = await kill(step, work)
      const operator = getOperator(gateway)
      const { workspace_id } = gateway.memory.owner
      const list = async () => (await listFiles(gateway, operator, {})).data
      // Before the start of a server sweeps, too.
      expect(await list()).toHaveLength(isThere ? 1 : 0)
      await sweepBlobs(gateway)
      expect(await list()).toHaveLength(isThere ? 1 : 0)
      const { bytes } = await gateway.store.files.computeUse(workspace_id)
      expect(bytes).toBe(isThere ? 4_096 : 0)
      expect(await examineFiles(gateway)).toMatchObject({ ok: true })
      expect(await examineHomes(gateway)).toMatchObject({ ok: true })
      expect(listNames(join(data, 'files'))).toHaveLength(isThere ? 2 : 1)
      if (work === 'promotion') {
        // Asked again, it is made once.
        const { id } = (await promoteContainerFile(gateway, operator, 'mine', 'cfile_YS50eHQ')) as {
          id: string
        }
        expect((await list()).map(file => file.id)).toEqual([id])
      } else {
        // The quota is exact: so much fits, and no more.
        const quota_mib = (isThere ? 2 : 1) / 256
        gateway.config = { ...gateway.config, files: { ...gateway.config.files, quota_mib } }
        const input = { filename: 'b.txt' }
        const again = () =>
          storeFile(
            gateway,
            operator,
            input,
            (async function* () {
              yield Buffer.from('again')
            })(),
          )
        await again()
        await expect(again()).rejects.toMatchObject({ status: 403 })
      }
      await gateway.close()
    },
  )
})
