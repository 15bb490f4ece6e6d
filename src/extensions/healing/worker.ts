/** The Worker's side: mends texts off the server's event loop. */

import { serveJobs } from '../../base/worker/serve-jobs.ts'
import type { HealingRequest } from '../healing.ts'
import { healText } from './heal.ts'

serveJobs((request: HealingRequest) => postMessage(healText(request)))
