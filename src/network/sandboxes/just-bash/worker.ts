/** The Worker's side: one shell over one file system in memory. */

import { serveJobs } from '../../../base/worker/serve-jobs.ts'
import type { ShellJob } from './protocol.ts'
import { Shell } from './shell.ts'

let shell: Shell | undefined

serveJobs(async (job: ShellJob) => {
  try {
    postMessage({ result: await doJob(job) })
  } catch (thrown) {
    postMessage({ error: thrown instanceof Error ? thrown.message : String(thrown) })
  }
})

async function doJob(job: ShellJob): Promise<unknown> {
  if (job.type === 'open') {
    shell = new Shell(job.limits)
    await shell.prepare()
    return null
  }
  if (!shell) throw new Error('The shell is not open')
  if (job.type === 'run') return shell.run(job)
  if (job.type === 'write') return shell.write(job)
  return job.type === 'list' ? shell.list() : shell.read(job.path)
}
