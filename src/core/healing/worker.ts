/** The Worker's side: mends texts off the server's event loop. */

import type { HealingRequest } from '../healing.ts'
import { serveJobs } from '../kernel/worker/serve-jobs.ts'
import { healText } from './heal.ts'

serveJobs((request: HealingRequest) => postMessage(healText(request)))
