/**
 * A process that kills itself at a step of an upload or of a promotion, as the kernel would:
 * `bun killed-files.ts STEP DIRECTORY upload|promotion`. The file of the container was made before.
 */

import { openGateway } from '../../src/app/gateway.ts'
import { promoteContainerFile } from '../../src/network/containers.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { storeFile } from '../../src/resources/files.ts'

const [step = '', data = '', work = ''] = process.argv.slice(2)

/** Ends the process if this is the step. */
const reach = (name: string) => {
  if (name === step) process.kill(process.pid, 'SIGKILL')
}

const gateway = await openGateway({ data })
const { blobs } = gateway
const { files } = gateway.store
gateway.blobs = {
  ...blobs,
  async create(place) {
    reach('begun')
    const draft = await blobs.create(place)
    reach('created')
    return {
      get size() {
        return draft.size
      },
      async write(bytes) {
        await draft.write(bytes.subarray(0, 2))
        reach('half')
        await draft.write(bytes.subarray(2))
        reach('written')
      },
      readAt: (position, length) => draft.readAt(position, length),
      digest: () => draft.digest(),
      keep: async insert => {
        await draft.keep(async () => {
          reach('published')
          await insert()
          reach('recorded')
        })
        reach('kept')
      },
      discard: () => draft.discard(),
    }
  },
}
const insert = files.insert.bind(files)
files.insert = async (...row) => {
  await insert(...row)
  reach('inserted')
}
const operator = getOperator(gateway)
if (work === 'upload')
  await storeFile(
    gateway,
    operator,
    { filename: 'a.txt' },
    (async function* () {
      yield Buffer.from('Hello')
    })(),
  )
else await promoteContainerFile(gateway, operator, 'mine', 'cfile_YS50eHQ')
reach('answered')
