import { defineNoun, defineOperation } from '../../resources/operation.ts'
import { createAlert, deleteAlert, getAlert, listAlerts, updateAlert } from '../alerts.ts'
import { AlertChange, AlertQuery, NewAlert } from './schema.ts'
import type { testAlert } from './test-alert.ts'

/** Sends a sample. What that needs is loaded with the first one. */
const test: typeof testAlert = async (...asked) =>
  (await import('./test-alert.ts')).testAlert(...asked)

const params = { id: 'The alert’s id' }

/** What can be done with alerts: an extension of ours. */
export const alerts = defineNoun(
  { tag: 'Alerts', access: 'management', params },
  {
    list: defineOperation('GET /alerts', 'listAlerts', 'List alerts', listAlerts, {
      query: AlertQuery,
    }),
    create: defineOperation('POST /alerts', 'createAlert', 'Add an alert', createAlert, {
      body: NewAlert,
      status: 201,
      refusals: [409],
    }),
    get: defineOperation('GET /alerts/:id', 'getAlert', 'Get an alert', getAlert),
    update: defineOperation('PATCH /alerts/:id', 'updateAlert', 'Change an alert', updateAlert, {
      body: AlertChange,
    }),
    delete: defineOperation('DELETE /alerts/:id', 'deleteAlert', 'Delete an alert', deleteAlert),
    test: defineOperation('POST /alerts/:id/test', 'testAlert', 'Test an alert', test),
  },
)
