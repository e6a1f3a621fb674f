// Generated from /openapi.json by scripts/generate.mjs. Do not edit.

export interface paths {
    "/v1/destinations/{destination}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/messages` */
        get: operations["list_messages"];
        put?: never;
        /** `POST /v1/destinations/{d}/messages` */
        post: operations["send_message"];
        /** `DELETE /v1/destinations/{d}/messages?idempotency_key=…` */
        delete: operations["cancel_message_by_idempotency_key"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/messages/{sequence}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/messages/{sequence}` */
        get: operations["show_message"];
        put?: never;
        post?: never;
        /** `DELETE /v1/destinations/{d}/messages/{sequence}` */
        delete: operations["cancel_message"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/messages/by-id/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/messages/by-id/{id}` */
        get: operations["show_message_by_id"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/messages/by-id/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/messages/by-id/{id}` */
        get: operations["find_messages_by_id"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/messages/{sequence}/result": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/messages/{sequence}/result` */
        get: operations["await_result"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/messages/{sequence}/run-now": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/messages/{sequence}/run-now` */
        post: operations["run_message_now"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/run-now": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/run-now` */
        post: operations["run_now"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations` */
        get: operations["list_destinations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}` */
        get: operations["show_destination"];
        /** `PUT /v1/destinations/{d}` */
        put: operations["define_destination"];
        post?: never;
        /** `DELETE /v1/destinations/{d}` */
        delete: operations["remove_destination"];
        options?: never;
        head?: never;
        /** `PATCH /v1/destinations/{d}` */
        patch: operations["change_destination"];
        trace?: never;
    };
    "/v1/destinations/{destination}/sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/sources` */
        get: operations["list_sources"];
        put?: never;
        post?: never;
        /** `DELETE /v1/destinations/{d}/sources?name=…` */
        delete: operations["remove_source"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/removed-destinations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/removed-destinations` */
        get: operations["list_removed_destinations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/restore` */
        post: operations["restore_destination"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/versions` */
        get: operations["list_versions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/diff` */
        post: operations["diff_destination"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/rollback` */
        post: operations["roll_back_destination"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/stats` */
        get: operations["list_stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/stats` */
        get: operations["show_stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/why": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/why` */
        get: operations["why"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/lanes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/lanes` */
        get: operations["list_lanes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pods": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/pods` */
        get: operations["list_pods"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/doctor": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/doctor` */
        get: operations["doctor"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/tokens` */
        get: operations["list_tokens"];
        put?: never;
        /** `POST /v1/tokens` */
        post: operations["make_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tokens/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/tokens/{id}` */
        get: operations["show_token"];
        put?: never;
        post?: never;
        /** `DELETE /v1/tokens/{id}` */
        delete: operations["revoke_token"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/audit` */
        get: operations["list_audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/topics` */
        get: operations["list_topics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics/{topic}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/topics/{t}` */
        get: operations["show_topic"];
        /** `PUT /v1/topics/{t}` */
        put: operations["define_topic"];
        post?: never;
        /** `DELETE /v1/topics/{t}` */
        delete: operations["remove_topic"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/pause` */
        post: operations["pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/resume` */
        post: operations["resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/retry-head": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/retry-head` */
        post: operations["retry_head"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/skip-head": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/skip-head` */
        post: operations["skip_head"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/purge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/purge` */
        post: operations["purge"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/repair": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/repair` */
        post: operations["repair"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/dead-letters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/dead-letters` */
        get: operations["list_dead_letters"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/dead-letters/{sequence}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/dead-letters/{sequence}` */
        get: operations["show_dead_letter"];
        put?: never;
        post?: never;
        /** `DELETE /v1/destinations/{d}/dead-letters/{sequence}` */
        delete: operations["discard_dead_letter"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/dead-letters/redrive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/dead-letters/redrive` */
        post: operations["redrive"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/dead-letters/discard": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/dead-letters/discard` */
        post: operations["discard"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/log` */
        get: operations["list_log"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/deliveries` */
        get: operations["tail_deliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/replay` */
        post: operations["replay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/operations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/operations` */
        get: operations["list_operations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/operations/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /v1/destinations/{d}/operations/{id}` */
        get: operations["show_operation"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/operations/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/operations/{id}/cancel` */
        post: operations["cancel_operation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/leases": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/leases` */
        post: operations["claim"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/leases/complete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/leases/complete` */
        post: operations["complete_leases"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/leases/fail": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/leases/fail` */
        post: operations["fail_leases"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/leases/extend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/leases/extend` */
        post: operations["extend_leases"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/leases/requeue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/leases/requeue` */
        post: operations["requeue_leases"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/destinations/{destination}/consume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/destinations/{d}/consume` */
        post: operations["consume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/deliveries/accept` */
        post: operations["accept_deliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/refuse": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/deliveries/refuse` */
        post: operations["refuse_deliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/extend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/deliveries/extend` */
        post: operations["extend_deliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/requeue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/deliveries/requeue` */
        post: operations["requeue_deliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The process is alive. */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The process is ready: Redis answers and accepts writes, this version knows its schema, and the process is not
         *     stopping.
         */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The metrics of this process in Prometheus's format. */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/problems": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /problems` */
        get: operations["list_problems"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/problems/{code}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /problems/{code}` */
        get: operations["show_problem"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /openapi.json` */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** `GET /docs` */
        get: operations["docs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs/swagger-ui-bundle.js": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["docs_script"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs/swagger-ui.css": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["docs_style"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs/start.js": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["docs_start"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics/{topic}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/topics/{t}/messages` */
        post: operations["publish_message"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** `POST /v1/messages` */
        post: operations["send_messages"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The answer to a message of which all destinations have a copy. */
        Accepted: {
            /** @description The id of the message. If all copies are duplicates: the id of the first message. */
            id: string;
            deliveries: components["schemas"]["StoredCopy"][];
        };
        /**
         * @description Whether a TCP receiver answers each frame.
         * @enum {string}
         */
        Ack: "line" | "none";
        /** @description An action that an operator can take. */
        Action: {
            /** @description The situation in which the action is right. */
            when: string;
            /** @description The command line of the action. */
            command: string;
        };
        /** @description The numbers of a page of destinations, and the sums over all. */
        AllStats: {
            items: components["schemas"]["DestinationStats"][];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
            totals?: null | components["schemas"]["Totals"];
        };
        /** @description Requests of workers to get a message again later. */
        AskedLater: {
            /**
             * Format: int32
             * @description How many times workers asked, since the message arrived or an operator retried it.
             */
            times: number;
            /**
             * Format: date-time
             * @description The message waits until this time because a worker asked; absent if it does not wait for this reason.
             */
            until?: string | null;
        };
        /** @description A failed attempt. */
        AttemptError: {
            /** @description The stage of the attempt. */
            stage: components["schemas"]["Stage"];
            /** @description The kind of error. */
            kind: components["schemas"]["ErrorKind"];
            /**
             * Format: int32
             * @description The HTTP status, if there was one.
             */
            status?: number | null;
            /** @description What happened, with the answer of the receiver or service; at most 2 kB. Must not contain secrets. */
            detail: string;
        };
        /** @description One reason why a destination needs attention. */
        Attention: {
            /** @description The cause. */
            cause: components["schemas"]["AttentionCause"];
            /**
             * Format: int64
             * @description The number of messages with this cause. For `damaged`, the number of keys and fields. For `failing`, an
             *     estimate if many messages fail.
             */
            count: number;
            /**
             * Format: int64
             * @description Since when the cause applies, in ms since 1970; null if unknown.
             */
            since?: number | null;
            /** @description The most frequent of the last errors, in short form: `status 503`. */
            error?: string | null;
        };
        /**
         * @description Why a destination needs attention.
         * @enum {string}
         */
        AttentionCause: "damaged" | "halted" | "failing" | "no_owner" | "no_worker" | "at_limit" | "paused" | "slow";
        /** @description An action of an operator. */
        AuditEntry: components["schemas"]["AuditedAction"] & {
            id: string;
            /**
             * Format: date-time
             * @description When the action was recorded, by the clock of Redis.
             */
            occurred_at: string;
        };
        /**
         * @description An action of an operator: the caller, the action, its target and its outcome. It never holds a body, a definition or
         *     a secret.
         */
        AuditedAction: {
            /**
             * @description The id of the token that the caller has shown. `admin_token`: the token of the configuration.
             *     `loopback_without_token`: there is no token yet. `anyone`: `auth.mode = "none"`. `configuration_file`: the file
             *     of a process.
             * @default
             */
            actor: string;
            /**
             * @description The name of the token; for a configuration file, the name of the process.
             * @default null
             */
            actor_name: string | null;
            /**
             * @description The subject of the client's certificate.
             * @default null
             */
            certificate: string | null;
            /**
             * @description The address and port from which the request came.
             * @default null
             */
            address: string | null;
            /**
             * @description The action: the `operationId` of its route.
             * @default
             */
            action: string;
            /**
             * @description The destination that the action concerns.
             * @default null
             */
            destination: string | null;
            /**
             * @description The topic, token, message or operation that the action concerns.
             * @default null
             */
            target: string | null;
            /**
             * Format: int64
             * @description How many messages, definitions or tokens the action changed.
             * @default 0
             */
            affected: number;
            /**
             * @description `succeeded`, or the code of the error; for a bulk operation, its state. `unfinished`: the client left before the
             *     answer. `not_written`: a configuration file did not change the definition that is in force.
             * @default
             */
            outcome: string;
            /**
             * @description The id of the bulk operation.
             * @default null
             */
            operation: string | null;
            /**
             * @description True if the action only counted.
             * @default false
             */
            dry_run: boolean;
            /**
             * @description The `x-request-id` of the request.
             * @default null
             */
            request_id: string | null;
        };
        /**
         * @description The format of a batch.
         * @enum {string}
         */
        BatchFormat: "json" | "ndjson";
        /**
         * @description Why the head has not left yet.
         * @enum {string}
         */
        BlockedBy: "nothing" | "draining" | "damaged" | "halted" | "withdrawing" | "delayed" | "backoff" | "no_processor" | "awaiting_processor" | "awaiting_worker" | "transform_rate_limit" | "processing" | "paused" | "no_owner" | "takeover_wait" | "rate_limit" | "awaiting_connection" | "receiver_failing" | "awaiting_consumer" | "consuming" | "delivering" | "redis" | "redis_refuses_writes";
        /** @description The output of one message. Give `body`, `body_base64` or `drop`. */
        CompleteItem: {
            token: string;
            /** @description The output, as JSON. */
            body?: unknown;
            /** @description The output, in base64. */
            body_base64?: string | null;
            /** @description The content type of `body_base64`. */
            content_type?: string | null;
            /** @description True: Reseq does not deliver the message. */
            drop?: boolean;
        };
        /** @description Which messages to take. */
        ConsumeRequest: {
            /**
             * @description The most messages to take.
             * @default 1
             */
            max: number;
            /**
             * Format: int64
             * @description Wait up to this long if there is nothing to take.
             */
            wait_ms?: number;
            consumer?: null | components["schemas"]["WorkerName"];
        };
        /** @description A message under a consumer's lease. */
        ConsumedMessage: {
            /** @description The token that names the message and the lease in later calls. */
            token: string;
            destination: components["schemas"]["DestinationName"];
            /** @description The lane: the ordering key, or the sequence without ordering. Messages of the same lane stay in order. */
            lane: string;
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            /**
             * Format: int64
             * @description The sequence of the message before this one in its lane, if it is known.
             */
            previous?: number | null;
            id: string;
            key?: string | null;
            /** Format: int32 */
            attempt: number;
            last_error?: null | components["schemas"]["LastError"];
            /** Format: date-time */
            expires_at: string;
            content_type: string;
            headers: {
                [key: string]: string;
            };
            body?: unknown;
            body_base64?: string | null;
        };
        /** @description Messages under a consumer's lease. Messages of the same lane are in order. */
        ConsumedMessages: {
            /**
             * Format: int64
             * @description How long a lease lasts, from this answer or from its extension.
             */
            lease_ms: number;
            deliveries: components["schemas"]["ConsumedMessage"][];
        };
        /** @description A dead letter. */
        DeadLetter: components["schemas"]["MessageFields"] & components["schemas"]["MessageContent"] & {
            state: components["schemas"]["State"];
            /** Format: date-time */
            dead_lettered_at: string;
            stage: components["schemas"]["Stage"];
            reason: string;
        };
        /** @description A field that differs between two definitions. Secrets are masked. */
        DefinitionChange: {
            /** @description The path of the field, such as `delivery.lanes_max`. */
            field: string;
            /** @description The value before the change; null if there was none. */
            before: unknown;
            /** @description The value after the change; null if there is none. */
            after: unknown;
        };
        /** @description The changes that a definition would make. */
        DefinitionDiff: {
            destination: components["schemas"]["DestinationName"];
            /** @description False if the definition would create the destination. The changes are then the differences from the defaults. */
            exists: boolean;
            changes: components["schemas"]["DefinitionChange"][];
        };
        /** @description How messages are delivered. */
        Delivery: {
            /** @default push */
            kind: components["schemas"]["DeliveryKind"];
            /**
             * Format: int64
             * @description Time limit of one attempt, in milliseconds. With `pull`: how long the lease of a consumer lasts, unless the
             *     consumer extends it.
             * @default 15000
             */
            timeout_ms: number;
            /**
             * Format: int32
             * @description The most lanes that have a delivery in flight at once.
             * @default 64
             */
            lanes_max: number;
            /**
             * Format: int32
             * @description The most deliveries started per second; 0: no limit.
             * @default 0
             */
            rate_per_second_max: number;
            /**
             * Format: int32
             * @description After this many failed attempts, Reseq gives the message up (`on_exhausted`); 0: never.
             * @default 0
             */
            attempts_max: number;
            /**
             * Format: int64
             * @description The upper limit of the first wait between attempts, in milliseconds.
             * @default 200
             */
            backoff_ms: number;
            /**
             * Format: int64
             * @description The longest wait between attempts, in milliseconds.
             * @default 30000
             */
            backoff_max_ms: number;
            /**
             * Format: int64
             * @description The longest `Retry-After` that is honoured, in milliseconds.
             * @default 3600000
             */
            retry_after_max_ms: number;
            /**
             * Format: int32
             * @description After this many failed deliveries in a row, of several messages, Reseq sends only one delivery at a time, as a
             *     probe, until the receiver accepts one; 0: never.
             * @default 10
             */
            breaker_failures: number;
            /**
             * Format: int32
             * @description HTTP: the most messages per request; 1: no batches.
             * @default 1
             */
            batch_max: number;
            /**
             * Format: int64
             * @description The most bytes of bodies in one batch or window. One message is always sent, even if it is larger.
             * @default 1048576
             */
            batch_bytes_max: number;
            /**
             * Format: int64
             * @description HTTP: how long a batch that is not full waits for more messages, in milliseconds.
             * @default 0
             */
            batch_linger_ms: number;
            /** @default json */
            batch_format: components["schemas"]["BatchFormat"];
            /**
             * Format: int32
             * @description TCP: the most unanswered frames of one lane.
             * @default 1
             */
            window_max: number;
            /** @default lines */
            framing: components["schemas"]["Framing"];
            /** @default none */
            envelope: components["schemas"]["Envelope"];
            /** @default line */
            ack: components["schemas"]["Ack"];
        };
        /**
         * @description Who gets the messages of a destination.
         * @enum {string}
         */
        DeliveryKind: "push" | "pull" | "none";
        /** @description A destination: its definition, and what Reseq adds. */
        Destination: {
            /** @description The name of the destination: `[a-z0-9._-]{1,64}`. */
            name: components["schemas"]["DestinationName"];
            /**
             * @description The URL of the receiver: `http://`, `https://`, `tcp://host:port` or `tls://host:port`. Required if
             *     `delivery.kind` is `push`.
             */
            url?: string | null;
            /** @description Static headers sent with each delivery (HTTP only), such as `authorization`. */
            headers?: {
                [key: string]: string;
            };
            sign?: null | components["schemas"]["Sign"];
            verify?: null | components["schemas"]["Verify"];
            /** @description Which headers travel with a message: names in lower case, or prefixes followed by `*`. */
            forward_headers?: string[];
            key_from?: null | components["schemas"]["KeySource"];
            idempotency_key_from?: null | components["schemas"]["KeySource"];
            /** @description How messages are processed before they are delivered. */
            transform?: components["schemas"]["Transform"];
            /** @description How messages are delivered. */
            delivery?: components["schemas"]["Delivery"];
            /** @description Which messages stay in order. */
            ordering?: components["schemas"]["Ordering"];
            /**
             * Format: int32
             * @description With ordering by key or without ordering: over how many shards the messages are spread. Each shard is on one
             *     server of a cluster, and has an equal part of each limit of the destination.
             */
            shards?: number;
            /** @description How many messages of a lane are processed at a time. */
            processing?: components["schemas"]["Processing"];
            /** @description What happens to a message when its attempts are used up. */
            on_exhausted?: components["schemas"]["OnExhausted"];
            /** @description Where a message must be before its producer gets an acknowledgement. */
            durability?: components["schemas"]["Durability"];
            /**
             * Format: int32
             * @description The destination's share of the processors' claims, relative to other destinations.
             */
            weight?: number;
            /**
             * Format: int64
             * @description The most pending messages. Beyond this, ingest refuses messages.
             */
            backlog_max?: number;
            /**
             * Format: int64
             * @description The most bytes of bodies of pending messages. Beyond this, ingest refuses messages; 0: no limit.
             */
            backlog_bytes_max?: number;
            /**
             * Format: int32
             * @description The most messages per second that each ingest process accepts for the destination; 0: no limit.
             */
            ingest_rate_per_second_max?: number;
            /**
             * Format: int64
             * @description How long Reseq remembers an idempotency key, in milliseconds; 0: while the message that used the key is pending.
             */
            idempotency_window_ms?: number;
            /**
             * Format: int64
             * @description The most idempotency keys within the window. Beyond this, ingest refuses messages that have one.
             */
            idempotency_keys_max?: number;
            /** @description When a message with a known idempotency key counts as a repeat. */
            idempotency_compare?: components["schemas"]["IdempotencyCompare"];
            /**
             * Format: int64
             * @description The most sources whose marks the destination keeps.
             */
            sources_max?: number;
            /**
             * Format: int64
             * @description How many of the last settled messages the log keeps; 0: no log.
             */
            log_max?: number;
            /** @description True if the log also keeps bodies as they arrived, which a replay needs. */
            log_bodies?: boolean;
            /**
             * Format: int64
             * @description The most dead letters. At the limit, a message that would become a dead letter halts its lane instead. 0: no
             *     limit.
             */
            dead_letters_max?: number;
            /**
             * Format: int64
             * @description How long Reseq keeps a dead letter, in milliseconds; 0: until it is redriven or discarded.
             */
            dead_letters_age_max_ms?: number;
            /**
             * Format: int64
             * @description With ordering by key: the number of keys without pending messages whose last sequence Reseq remembers, the most
             *     recent keys; 0: none.
             */
            previous_keys_max?: number;
            /**
             * Format: int64
             * @description How many of the last messages can be found by their id; 0: none. Beyond 1,000, Reseq keeps an index.
             */
            ids_max?: number;
            /** Format: int64 */
            version: number;
            /** Format: int32 */
            partition: number;
            defined_in_file: boolean;
            paused: components["schemas"]["Paused"];
        };
        /** @description The definition of a destination, as in `[[destination]]` and in `PUT /v1/destinations/{d}`. */
        DestinationDefinition: {
            /** @description The name of the destination: `[a-z0-9._-]{1,64}`. */
            name?: components["schemas"]["DestinationName"];
            /**
             * @description The URL of the receiver: `http://`, `https://`, `tcp://host:port` or `tls://host:port`. Required if
             *     `delivery.kind` is `push`.
             */
            url?: string | null;
            /** @description Static headers sent with each delivery (HTTP only), such as `authorization`. */
            headers?: {
                [key: string]: string;
            };
            sign?: null | components["schemas"]["Sign"];
            verify?: null | components["schemas"]["Verify"];
            /** @description Which headers travel with a message: names in lower case, or prefixes followed by `*`. */
            forward_headers?: string[];
            key_from?: null | components["schemas"]["KeySource"];
            idempotency_key_from?: null | components["schemas"]["KeySource"];
            /** @description How messages are processed before they are delivered. */
            transform?: components["schemas"]["Transform"];
            /** @description How messages are delivered. */
            delivery?: components["schemas"]["Delivery"];
            /** @description Which messages stay in order. */
            ordering?: components["schemas"]["Ordering"];
            /**
             * Format: int32
             * @description With ordering by key or without ordering: over how many shards the messages are spread. Each shard is on one
             *     server of a cluster, and has an equal part of each limit of the destination.
             */
            shards?: number;
            /** @description How many messages of a lane are processed at a time. */
            processing?: components["schemas"]["Processing"];
            /** @description What happens to a message when its attempts are used up. */
            on_exhausted?: components["schemas"]["OnExhausted"];
            /** @description Where a message must be before its producer gets an acknowledgement. */
            durability?: components["schemas"]["Durability"];
            /**
             * Format: int32
             * @description The destination's share of the processors' claims, relative to other destinations.
             */
            weight?: number;
            /**
             * Format: int64
             * @description The most pending messages. Beyond this, ingest refuses messages.
             */
            backlog_max?: number;
            /**
             * Format: int64
             * @description The most bytes of bodies of pending messages. Beyond this, ingest refuses messages; 0: no limit.
             */
            backlog_bytes_max?: number;
            /**
             * Format: int32
             * @description The most messages per second that each ingest process accepts for the destination; 0: no limit.
             */
            ingest_rate_per_second_max?: number;
            /**
             * Format: int64
             * @description How long Reseq remembers an idempotency key, in milliseconds; 0: while the message that used the key is pending.
             */
            idempotency_window_ms?: number;
            /**
             * Format: int64
             * @description The most idempotency keys within the window. Beyond this, ingest refuses messages that have one.
             */
            idempotency_keys_max?: number;
            /** @description When a message with a known idempotency key counts as a repeat. */
            idempotency_compare?: components["schemas"]["IdempotencyCompare"];
            /**
             * Format: int64
             * @description The most sources whose marks the destination keeps.
             */
            sources_max?: number;
            /**
             * Format: int64
             * @description How many of the last settled messages the log keeps; 0: no log.
             */
            log_max?: number;
            /** @description True if the log also keeps bodies as they arrived, which a replay needs. */
            log_bodies?: boolean;
            /**
             * Format: int64
             * @description The most dead letters. At the limit, a message that would become a dead letter halts its lane instead. 0: no
             *     limit.
             */
            dead_letters_max?: number;
            /**
             * Format: int64
             * @description How long Reseq keeps a dead letter, in milliseconds; 0: until it is redriven or discarded.
             */
            dead_letters_age_max_ms?: number;
            /**
             * Format: int64
             * @description With ordering by key: the number of keys without pending messages whose last sequence Reseq remembers, the most
             *     recent keys; 0: none.
             */
            previous_keys_max?: number;
            /**
             * Format: int64
             * @description How many of the last messages can be found by their id; 0: none. Beyond 1,000, Reseq keeps an index.
             */
            ids_max?: number;
        };
        /**
         * @description A destination's name: `[a-z0-9._-]{1,64}`. Shards have names, too: those of `orders` are `orders`, `orders~1`,
         *     `orders~2` and so on.
         */
        DestinationName: string;
        /** @description The numbers of a destination, or the reason why there are none. */
        DestinationNumbers: components["schemas"]["Stats"] | {
            /** @description The keys or fields that cannot be read. */
            damaged: string[];
            attention: components["schemas"]["Attention"][];
        } | {
            /** @description Why Redis did not answer. */
            not_read: string;
        };
        /** @description Any field of the definition; null stands for the default. */
        DestinationPatch: {
            name?: null | components["schemas"]["DestinationName"];
            url?: null | (string | null);
            headers?: null | {
                [key: string]: string | null;
            };
            sign?: null | {
                secrets?: null | string[];
            };
            verify?: null | {
                kind?: null | components["schemas"]["VerifyKind"];
                secrets?: null | string[];
                tolerance_ms?: null | (number | null);
                header?: null | (string | null);
                algorithm?: null | (null | components["schemas"]["HmacAlgorithm"]);
                encoding?: null | (null | components["schemas"]["SignatureEncoding"]);
                prefix?: null | (string | null);
                timestamp_header?: null | (string | null);
                id_header?: null | (string | null);
                signed?: null | (string | null);
            };
            forward_headers?: null | string[];
            key_from?: null | (null | components["schemas"]["KeySource"]);
            idempotency_key_from?: null | (null | components["schemas"]["KeySource"]);
            transform?: null | {
                kind?: null | components["schemas"]["TransformKind"];
                url?: null | (string | null);
                name?: null | (string | null);
                expression?: null | (string | null);
                headers?: null | {
                    [key: string]: string | null;
                };
                timeout_ms?: null | number;
                attempt_ms_max?: null | number;
                concurrency?: null | number;
                rate_per_second_max?: null | number;
                burst?: null | number;
                attempts_max?: null | number;
                stalls_max?: null | number;
                backoff_ms?: null | number;
                backoff_max_ms?: null | number;
                retry_after_max_ms?: null | number;
            };
            delivery?: null | {
                kind?: null | components["schemas"]["DeliveryKind"];
                timeout_ms?: null | number;
                lanes_max?: null | number;
                rate_per_second_max?: null | number;
                attempts_max?: null | number;
                backoff_ms?: null | number;
                backoff_max_ms?: null | number;
                retry_after_max_ms?: null | number;
                breaker_failures?: null | number;
                batch_max?: null | number;
                batch_bytes_max?: null | number;
                batch_linger_ms?: null | number;
                batch_format?: null | components["schemas"]["BatchFormat"];
                window_max?: null | number;
                framing?: null | components["schemas"]["Framing"];
                envelope?: null | components["schemas"]["Envelope"];
                ack?: null | components["schemas"]["Ack"];
            };
            ordering?: null | components["schemas"]["Ordering"];
            shards?: null | number;
            processing?: null | components["schemas"]["Processing"];
            on_exhausted?: null | components["schemas"]["OnExhausted"];
            durability?: null | components["schemas"]["Durability"];
            weight?: null | number;
            backlog_max?: null | number;
            backlog_bytes_max?: null | number;
            ingest_rate_per_second_max?: null | number;
            idempotency_window_ms?: null | number;
            idempotency_keys_max?: null | number;
            idempotency_compare?: null | components["schemas"]["IdempotencyCompare"];
            sources_max?: null | number;
            log_max?: null | number;
            log_bodies?: null | boolean;
            dead_letters_max?: null | number;
            dead_letters_age_max_ms?: null | number;
            previous_keys_max?: null | number;
            ids_max?: null | number;
        };
        /** @description The name and the numbers of one destination. */
        DestinationStats: components["schemas"]["DestinationNumbers"] & {
            name: components["schemas"]["DestinationName"];
        };
        /** @description A definition that a destination has or had. */
        DestinationVersion: {
            /** Format: int64 */
            version: number;
            /** Format: date-time */
            written_at: string;
            /**
             * @description The caller that wrote the version, as in the audit log; `configuration_file` for the file of a process; empty if
             *     it is not known.
             */
            actor: string;
            /** @description The name of the token; for a configuration file, the name of the process. */
            actor_name?: string | null;
            /** @description The differences from the version before, if that version is kept. Changes of secrets are left out. */
            changes?: components["schemas"]["DefinitionChange"][] | null;
            /** @description The definition, with secrets masked. */
            definition: Record<string, never>;
        };
        /** @enum {string} */
        DiscardState: "discarded";
        /** @description A dead letter that was discarded. */
        Discarded: {
            /** Format: int64 */
            sequence: number;
            state: components["schemas"]["DiscardState"];
        };
        /**
         * @description Where a message must be before its producer gets an acknowledgement.
         * @enum {string}
         */
        Durability: "memory" | "replicated" | "quorum" | "fsynced";
        /**
         * @description The content of a frame on a TCP connection.
         * @enum {string}
         */
        Envelope: "none" | "json";
        /**
         * @description The kind of error.
         * @enum {string}
         */
        ErrorKind: "status" | "timeout" | "connection" | "rejected" | "failed" | "stalled" | "unsendable" | "damaged";
        /** @description A lease to extend. */
        ExtendItem: {
            token: string;
            /**
             * Format: int64
             * @description How long the lease lasts, from now.
             * @default 30000
             */
            lease_ms: number;
            /** @description The checkpoint for the next attempt. If absent, the earlier checkpoint stays. */
            checkpoint?: unknown;
        };
        /** @description A failed attempt. */
        FailItem: {
            token: string;
            /** @description The error; the first 2 kB are kept. */
            error?: string;
            /** @description True: no further attempt can succeed. */
            final?: boolean;
            /**
             * Format: int64
             * @description How long the message waits before the next attempt; if absent, the backoff of the definition.
             */
            retry_ms?: number | null;
        };
        /** @description A failed attempt. */
        Failure: {
            /** Format: date-time */
            occurred_at: string;
            stage: components["schemas"]["Stage"];
            kind: components["schemas"]["ErrorKind"];
            /** Format: int32 */
            status?: number | null;
            detail: string;
        };
        /** @description A filter for dead letters. Omitted fields match everything. */
        Filter: {
            /** @description Only dead letters with this ordering key; `""`: dead letters without a key. */
            key?: string | null;
            stage?: null | components["schemas"]["Stage"];
            from_sequence?: null | number;
            to_sequence?: null | number;
            /** @description Only messages that became dead letters since this time (RFC 3339). */
            from_time?: string | null;
            /** @description Only messages that became dead letters until this time (RFC 3339). */
            to_time?: string | null;
            /** @description Only dead letters with this text in the reason, or in the detail of one of the errors. */
            error?: string | null;
        };
        /** @description Something that an operator should know. */
        Finding: {
            severity: components["schemas"]["Severity"];
            /** @description The check that found the problem: one of `checks`. */
            check: string;
            /** @description The subject: a server, a pod or a destination; empty for the whole deployment. */
            subject: string;
            /** @description The finding, in one sentence. */
            summary: string;
            /** @description The remedy. */
            action: string;
        };
        /** @description The problems of one kind. */
        Found: {
            /** @description The kind of the problems. */
            kind: string;
            /** @description What the kind means, and what the repair does about it. */
            detail: string;
            /**
             * Format: int64
             * @description The number of problems found.
             */
            matched: number;
            /**
             * Format: int64
             * @description The number of problems repaired.
             */
            affected: number;
            /** @description Examples: sequences, Redis keys or names of counters. */
            examples: string[];
        };
        /**
         * @description How frames on a TCP connection are separated.
         * @enum {string}
         */
        Framing: "lines" | "length";
        /** @description A message that has left. */
        GoneMessage: {
            /** @description The shard of the message, in lists of a destination with several. */
            shard?: string | null;
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            id: string;
            key?: string | null;
            state: components["schemas"]["State"];
            /** Format: date-time */
            received_at: string;
            /** Format: date-time */
            settled_at: string;
            /** Format: int32 */
            attempts: number;
            latency: components["schemas"]["Latency"];
            dead_letter: boolean;
        };
        /** @description The calls that a token allows. */
        Grant: {
            /** @description The kinds of calls that its holder may make. */
            scopes: components["schemas"]["Scope"][];
            /** @description The destinations with which it may be used; all if absent. */
            destinations?: components["schemas"]["DestinationName"][] | null;
            /**
             * Format: int32
             * @description The most messages per second that each process accepts from its holder; 0: no limit.
             */
            rate_per_second_max?: number;
        };
        /** @description The head of a lane, and what it waits for. */
        Head: {
            /** @description The shard of the head, if the destination has several, as paths name it. */
            shard?: string | null;
            /**
             * Format: int64
             * @description The sequence of the head.
             */
            sequence: number;
            /** @description The ordering key of the head, with ordering by key. */
            key?: string | null;
            /** @description The state of the head. */
            state: components["schemas"]["State"];
            /**
             * Format: int64
             * @description How long ago the head arrived, in milliseconds.
             */
            age_ms: number;
            /** @description What the head waits for: `transform`, `delivery`, its `delay`, or an `operator`. */
            blocked_by: string;
            /**
             * Format: int32
             * @description Failed attempts in the current stage of the head.
             */
            attempts: number;
            /**
             * Format: int32
             * @description Leases on the head that expired.
             */
            stalls: number;
            /**
             * Format: int64
             * @description How long the head has been halted, in milliseconds.
             */
            halted_for_ms?: number | null;
            last_error?: null | components["schemas"]["AttemptError"];
        };
        /** @description A message and its current state. */
        HeadState: {
            /** Format: int64 */
            sequence: number;
            state: components["schemas"]["State"];
        };
        /** @description A message that a consumer holds. */
        HeldItem: {
            token: string;
        };
        /**
         * @description The hash function of an HMAC.
         * @enum {string}
         */
        HmacAlgorithm: "sha1" | "sha256" | "sha384" | "sha512";
        /**
         * @description When a message with a known idempotency key counts as a repeat.
         * @enum {string}
         */
        IdempotencyCompare: "body" | "key";
        /**
         * @description One invalid part of a request, and what is wrong with it. Has one of `pointer`, `parameter` and
         *     `header`; none of them if no single parameter or header is to blame.
         */
        InvalidPart: {
            /** @description The part of the body, as a JSON Pointer in a URI fragment (RFC 6901, section 6). */
            pointer?: string | null;
            /** @description The parameter of the query or of the path. */
            parameter?: string | null;
            /** @description The header of the request. */
            header?: string | null;
            /** @description What is wrong. */
            detail: string;
        };
        /** @description A page of a list. */
        Items_AuditEntry: {
            items: (components["schemas"]["AuditedAction"] & {
                id: string;
                /**
                 * Format: date-time
                 * @description When the action was recorded, by the clock of Redis.
                 */
                occurred_at: string;
            })[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_DeadLetter: {
            items: (components["schemas"]["MessageFields"] & components["schemas"]["MessageContent"] & {
                state: components["schemas"]["State"];
                /** Format: date-time */
                dead_lettered_at: string;
                stage: components["schemas"]["Stage"];
                reason: string;
            })[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_Destination: {
            items: {
                /** @description The name of the destination: `[a-z0-9._-]{1,64}`. */
                name: components["schemas"]["DestinationName"];
                /**
                 * @description The URL of the receiver: `http://`, `https://`, `tcp://host:port` or `tls://host:port`. Required if
                 *     `delivery.kind` is `push`.
                 */
                url?: string | null;
                /** @description Static headers sent with each delivery (HTTP only), such as `authorization`. */
                headers?: {
                    [key: string]: string;
                };
                sign?: null | components["schemas"]["Sign"];
                verify?: null | components["schemas"]["Verify"];
                /** @description Which headers travel with a message: names in lower case, or prefixes followed by `*`. */
                forward_headers?: string[];
                key_from?: null | components["schemas"]["KeySource"];
                idempotency_key_from?: null | components["schemas"]["KeySource"];
                /** @description How messages are processed before they are delivered. */
                transform?: components["schemas"]["Transform"];
                /** @description How messages are delivered. */
                delivery?: components["schemas"]["Delivery"];
                /** @description Which messages stay in order. */
                ordering?: components["schemas"]["Ordering"];
                /**
                 * Format: int32
                 * @description With ordering by key or without ordering: over how many shards the messages are spread. Each shard is on one
                 *     server of a cluster, and has an equal part of each limit of the destination.
                 */
                shards?: number;
                /** @description How many messages of a lane are processed at a time. */
                processing?: components["schemas"]["Processing"];
                /** @description What happens to a message when its attempts are used up. */
                on_exhausted?: components["schemas"]["OnExhausted"];
                /** @description Where a message must be before its producer gets an acknowledgement. */
                durability?: components["schemas"]["Durability"];
                /**
                 * Format: int32
                 * @description The destination's share of the processors' claims, relative to other destinations.
                 */
                weight?: number;
                /**
                 * Format: int64
                 * @description The most pending messages. Beyond this, ingest refuses messages.
                 */
                backlog_max?: number;
                /**
                 * Format: int64
                 * @description The most bytes of bodies of pending messages. Beyond this, ingest refuses messages; 0: no limit.
                 */
                backlog_bytes_max?: number;
                /**
                 * Format: int32
                 * @description The most messages per second that each ingest process accepts for the destination; 0: no limit.
                 */
                ingest_rate_per_second_max?: number;
                /**
                 * Format: int64
                 * @description How long Reseq remembers an idempotency key, in milliseconds; 0: while the message that used the key is pending.
                 */
                idempotency_window_ms?: number;
                /**
                 * Format: int64
                 * @description The most idempotency keys within the window. Beyond this, ingest refuses messages that have one.
                 */
                idempotency_keys_max?: number;
                /** @description When a message with a known idempotency key counts as a repeat. */
                idempotency_compare?: components["schemas"]["IdempotencyCompare"];
                /**
                 * Format: int64
                 * @description The most sources whose marks the destination keeps.
                 */
                sources_max?: number;
                /**
                 * Format: int64
                 * @description How many of the last settled messages the log keeps; 0: no log.
                 */
                log_max?: number;
                /** @description True if the log also keeps bodies as they arrived, which a replay needs. */
                log_bodies?: boolean;
                /**
                 * Format: int64
                 * @description The most dead letters. At the limit, a message that would become a dead letter halts its lane instead. 0: no
                 *     limit.
                 */
                dead_letters_max?: number;
                /**
                 * Format: int64
                 * @description How long Reseq keeps a dead letter, in milliseconds; 0: until it is redriven or discarded.
                 */
                dead_letters_age_max_ms?: number;
                /**
                 * Format: int64
                 * @description With ordering by key: the number of keys without pending messages whose last sequence Reseq remembers, the most
                 *     recent keys; 0: none.
                 */
                previous_keys_max?: number;
                /**
                 * Format: int64
                 * @description How many of the last messages can be found by their id; 0: none. Beyond 1,000, Reseq keeps an index.
                 */
                ids_max?: number;
                /** Format: int64 */
                version: number;
                /** Format: int32 */
                partition: number;
                defined_in_file: boolean;
                paused: components["schemas"]["Paused"];
            }[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_DestinationVersion: {
            items: {
                /** Format: int64 */
                version: number;
                /** Format: date-time */
                written_at: string;
                /**
                 * @description The caller that wrote the version, as in the audit log; `configuration_file` for the file of a process; empty if
                 *     it is not known.
                 */
                actor: string;
                /** @description The name of the token; for a configuration file, the name of the process. */
                actor_name?: string | null;
                /** @description The differences from the version before, if that version is kept. Changes of secrets are left out. */
                changes?: components["schemas"]["DefinitionChange"][] | null;
                /** @description The definition, with secrets masked. */
                definition: Record<string, never>;
            }[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_LogEntry: {
            items: (components["schemas"]["GoneMessage"] | components["schemas"]["Unreadable"])[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_Operation: {
            items: (components["schemas"]["OperationDetails"] & {
                id: string;
                kind: components["schemas"]["OperationKind"];
                destination: components["schemas"]["DestinationName"];
                state: components["schemas"]["OperationState"];
                /** @description True if the operation only counts. */
                dry_run: boolean;
                /** Format: date-time */
                started_at: string;
                /** Format: date-time */
                updated_at: string;
                /**
                 * Format: int64
                 * @description Messages that the request selects, or problems that it has found, counted so far.
                 */
                matched: number;
                /**
                 * Format: int64
                 * @description Messages that the operation has purged, redriven, discarded, replayed or retried; problems that it has repaired.
                 */
                affected: number;
                /**
                 * Format: int64
                 * @description Messages that the operation could not change.
                 */
                failed: number;
                problem?: null | components["schemas"]["Problem"];
            })[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_PendingMessage: {
            items: (components["schemas"]["MessageFields"] & components["schemas"]["MessageContent"] & {
                state: components["schemas"]["State"];
                /** Format: int64 */
                age_ms?: number | null;
                /** Format: date-time */
                due_at?: string | null;
                /** Format: date-time */
                halted_at?: string | null;
                /** Format: int32 */
                priority?: number | null;
                withdrawing: boolean;
                asked_later?: null | components["schemas"]["AskedLater"];
                lease?: null | components["schemas"]["MessageLease"];
            })[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_Pod: {
            items: {
                /** @description The unique name of the process. A lease of a built-in transform names it. */
                pod: string;
                /** @description The name of the machine or container. */
                host: string;
                /** @description The roles of the process: `ingest`, `processor`, `sender`. */
                roles: string[];
                /** @description The version of the process; null until its second heartbeat. */
                version?: string | null;
                /** @description The address at which the process listens for HTTP, as configured; null until its second heartbeat. */
                address?: string | null;
                /**
                 * Format: date-time
                 * @description When the process started; null until its second heartbeat.
                 */
                started_at?: string | null;
                /**
                 * Format: int32
                 * @description The newest schema that the process knows.
                 */
                schema: number;
                /**
                 * Format: int64
                 * @description How many seconds the clock of the process is ahead of the clock of Redis; 0 if they differ by at most one
                 *     second.
                 */
                clock_ahead_s: number;
                /**
                 * Format: date-time
                 * @description The process counts as dead after this time, unless it sends another heartbeat. It sends one per second.
                 */
                expires_at: string;
                /** @description The partitions that the process owns: it delivers the messages of their destinations. */
                partitions: number[];
                /** @description True for the process that answers. */
                is_self: boolean;
            }[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_RemovedDefinition: {
            items: {
                name: components["schemas"]["DestinationName"];
                /** Format: int64 */
                version: number;
                /** Format: date-time */
                removed_at: string;
                /** @description The caller that removed the destination, as in the audit log; empty if it is not known. */
                actor: string;
                /** @description The name of the token. */
                actor_name?: string | null;
                /** @description The definition, with secrets masked. */
                definition: Record<string, never>;
            }[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_Token: {
            items: (components["schemas"]["Grant"] & {
                id: string;
                name: string;
                /** Format: date-time */
                created_at: string;
                /**
                 * Format: date-time
                 * @description When the token ends; null: never.
                 */
                expires_at?: string | null;
                expired: boolean;
                /**
                 * Format: date-time
                 * @description When the token was last used, up to some seconds late; null: no known use.
                 */
                last_used_at?: string | null;
            })[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        Items_Topic: {
            items: {
                name: components["schemas"]["TopicName"];
                destinations: components["schemas"]["DestinationName"][];
                defined_in_file: boolean;
            }[];
            /** @description The `cursor` of the next page; null on the last. */
            next_cursor?: string | null;
        };
        /** @description The part of a message that holds its ordering key or its idempotency key. */
        KeySource: {
            /** @description The value of this header. */
            header: string;
        } | {
            /** @description The output of this `jq` expression for the body. */
            jq: string;
        };
        /** @description A lane that holds messages. */
        Lane: {
            /** @description The shard of the lane, if the destination has several. */
            shard?: string | null;
            /** @description The ordering key of the lane; null if the destination is one lane. */
            key?: string | null;
            /**
             * Format: int64
             * @description How many messages have not left the lane.
             */
            pending: number;
            /**
             * Format: int64
             * @description How many of these messages are processed and not delivered yet.
             */
            ready: number;
            head?: null | components["schemas"]["PendingMessage"];
        };
        /** @description The largest lanes among the keys of Redis that this call visited. */
        Lanes: {
            /** @description The ordering of the destination. With `none`, each message is its own lane, and the answer lists no lanes. */
            ordering: components["schemas"]["Ordering"];
            /** @description The lanes; the lane with the most pending messages comes first. */
            items: components["schemas"]["Lane"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor?: string | null;
            /**
             * Format: double
             * @description The share of the keys visited so far, 0 to 1; null if it is not known (in a cluster).
             */
            progress?: number | null;
        };
        LastError: components["schemas"]["AttemptError"] & {
            occurred_at: string;
        };
        Latency: {
            /** Format: int64 */
            waited_ms?: number | null;
            /** Format: int64 */
            processing_ms?: number | null;
            /** Format: int64 */
            delivery_ms: number;
            /** Format: int64 */
            total_ms: number;
        };
        /** @description A message under a worker's lease. */
        Lease: {
            /** @description The token that names the lease in later calls. */
            token: string;
            destination: components["schemas"]["DestinationName"];
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            id: string;
            key?: string | null;
            /** Format: int32 */
            attempt: number;
            /** @description True if the message may have crashed its last workers. Process no other suspect in the same process. */
            suspect?: boolean;
            /** @description The checkpoint of the last attempt, as JSON. */
            checkpoint?: unknown;
            /** @description The checkpoint in base64, if some JSON parsers would refuse it. */
            checkpoint_base64?: string | null;
            last_error?: null | components["schemas"]["LastError"];
            /** Format: date-time */
            expires_at: string;
            content_type: string;
            headers: {
                [key: string]: string;
            };
            body?: unknown;
            body_base64?: string | null;
        };
        /** @description A list of claimed messages, each with the action on it. */
        LeaseItems_CompleteItem: {
            items: {
                token: string;
                /** @description The output, as JSON. */
                body?: unknown;
                /** @description The output, in base64. */
                body_base64?: string | null;
                /** @description The content type of `body_base64`. */
                content_type?: string | null;
                /** @description True: Reseq does not deliver the message. */
                drop?: boolean;
            }[];
        };
        /** @description A list of claimed messages, each with the action on it. */
        LeaseItems_ExtendItem: {
            items: {
                token: string;
                /**
                 * Format: int64
                 * @description How long the lease lasts, from now.
                 * @default 30000
                 */
                lease_ms: number;
                /** @description The checkpoint for the next attempt. If absent, the earlier checkpoint stays. */
                checkpoint?: unknown;
            }[];
        };
        /** @description A list of claimed messages, each with the action on it. */
        LeaseItems_FailItem: {
            items: {
                token: string;
                /** @description The error; the first 2 kB are kept. */
                error?: string;
                /** @description True: no further attempt can succeed. */
                final?: boolean;
                /**
                 * Format: int64
                 * @description How long the message waits before the next attempt; if absent, the backoff of the definition.
                 */
                retry_ms?: number | null;
            }[];
        };
        /** @description A list of claimed messages, each with the action on it. */
        LeaseItems_HeldItem: {
            items: {
                token: string;
            }[];
        };
        /** @description A list of claimed messages, each with the action on it. */
        LeaseItems_RefuseItem: {
            items: {
                token: string;
                /** @description The error; the first 2 kB are kept. */
                error?: string;
                /** @description True: no further attempt can succeed. */
                final?: boolean;
                /**
                 * Format: int64
                 * @description How long the message waits before the next attempt; if absent, the backoff of the definition.
                 */
                retry_ms?: number | null;
            }[];
        };
        /** @description A list of claimed messages, each with the action on it. */
        LeaseItems_RequeueItem: {
            items: {
                token: string;
                /**
                 * Format: int64
                 * @description How long the message waits before a worker can get it again; 0: it does not wait. One message can wait in this
                 *     way 1,000 times.
                 */
                delay_ms?: number;
            }[];
        };
        /** @description Which messages to claim. */
        LeaseRequest: {
            /** @description The destinations to claim from. Their transform is `worker`. */
            destinations: components["schemas"]["DestinationName"][];
            /**
             * @description The most messages to claim.
             * @default 1
             */
            max: number;
            /**
             * @description The fewest messages to claim: if fewer wait, the answer has none. Above 1 only with one destination.
             * @default 1
             */
            min: number;
            /**
             * Format: int64
             * @description Wait up to this long if there is nothing to claim.
             */
            wait_ms?: number;
            worker?: null | components["schemas"]["WorkerName"];
            /**
             * @description False while the process of the worker holds a suspect message: it gets no other suspect.
             * @default true
             */
            suspects: boolean;
            /**
             * Format: int64
             * @description How long the leases last.
             * @default 30000
             */
            lease_ms: number;
        };
        LeaseResult: {
            token: string;
            status: components["schemas"]["LeaseStatus"];
            /** @description When the extended lease expires. */
            expires_at?: string | null;
            /** @description What happens to the message if this attempt was its last one. */
            exhausted?: string | null;
            /** @description With `attempt_timeout`: the cause and the remedy. */
            detail?: string | null;
        };
        /** @description One result for each item, in order. */
        LeaseResults: {
            results: components["schemas"]["LeaseResult"][];
        };
        /**
         * @description The result of a script for one lease.
         * @enum {string}
         */
        LeaseStatus: "ok" | "halted" | "stale_lease" | "settled" | "damaged" | "attempt_timeout";
        /** @description Claimed messages. */
        Leases: {
            leases: components["schemas"]["Lease"][];
            /** @description The destinations from which nothing can be claimed, because their data in Redis is damaged. */
            damaged?: components["schemas"]["DestinationName"][];
        };
        /** @description An entry of the log, which may be unreadable. */
        LogEntry: components["schemas"]["GoneMessage"] | components["schemas"]["Unreadable"];
        /** @description A message: pending, gone, or a dead letter whose log entry has left the log. */
        Message: components["schemas"]["PendingMessage"] | components["schemas"]["GoneMessage"] | components["schemas"]["DeadLetter"];
        /** @description Fields that only the view of a single message has. */
        MessageContent: {
            previous?: null | number;
            headers?: {
                [key: string]: string;
            } | null;
            /** @description The body, if it is JSON that all parsers can read. */
            body?: unknown;
            /** @description The body in base64, if `body` is absent: the body is not JSON that all parsers can read. */
            body_base64?: string | null;
            /** @description The last errors. */
            errors?: components["schemas"]["Failure"][] | null;
            /** @description True if a worker saved a checkpoint. */
            checkpoint?: boolean | null;
        };
        /** @description The fields of every message. */
        MessageFields: {
            /** @description The shard of the message, in lists of a destination with several. */
            shard?: string | null;
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            id: string;
            key?: string | null;
            /**
             * Format: date-time
             * @description When the message arrived; absent if Redis has too little of the message to tell.
             */
            received_at?: string | null;
            /** Format: int32 */
            attempts: number;
            /** Format: int32 */
            stalls: number;
            /** Format: int64 */
            bytes: number;
            content_type: string;
            origin?: null | components["schemas"]["Origin"];
            last_error?: null | components["schemas"]["Failure"];
            /** @description The reason why the message cannot be read; absent if it can be read. */
            damaged?: string | null;
        };
        /** @description A message, with its destination. */
        MessageFound: {
            destination: components["schemas"]["DestinationName"];
            message: components["schemas"]["Message"];
        };
        /** @description The lease on a message that a worker processes or a consumer holds. */
        MessageLease: {
            worker?: null | components["schemas"]["WorkerName"];
            consumer?: null | components["schemas"]["WorkerName"];
            /**
             * Format: date-time
             * @description When the lease expires, unless it is extended.
             */
            expires_at: string;
        };
        /** @description The result of a message. */
        MessageResult: {
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            id: string;
            state: components["schemas"]["ResultState"];
            content_type?: string | null;
            /** @description The output, if it is JSON that all parsers can read. */
            body?: unknown;
            /** @description The output in base64, if `body` is absent: the output is not JSON that all parsers can read. */
            body_base64?: string | null;
            error?: null | components["schemas"]["Failure"];
            /** @description The reason why there is no output. */
            detail?: string | null;
        };
        /** @description The source of a message, as its producer writes it. */
        MessageSource: {
            /** @description The name of the source, such as a table, or a partition of a topic. */
            name: string;
            /** @description The position of the message in its source. Positions are compared byte by byte. */
            position: string;
            /** @description The position of the message before this one. Reseq stores this message only after that one. */
            after?: string | null;
            /** @description True: stores nothing, and only moves the mark to this position. */
            skip?: boolean;
        };
        /** @description The messages with an id, one for each destination that has such a message. */
        MessagesFound: {
            items: components["schemas"]["MessageFound"][];
        };
        /** @description A message in JSON. Give either `destinations` or a `topic`, and either a `body` or a `body_base64`. */
        NewMessage: {
            /** @description The destinations of the message. */
            destinations?: string[] | null;
            /** @description The topic to publish to: each of its destinations gets a copy. */
            topic?: string | null;
            /** @description The body, as JSON. */
            body?: unknown;
            /** @description The body, in base64. */
            body_base64?: string | null;
            /** @description The content type of `body_base64`. */
            content_type?: string | null;
            /** @description The id of the message; a new UUID if absent. */
            id?: string | null;
            /** @description The ordering key. */
            key?: string | null;
            /** @description The idempotency key. A repeated message with the same key is not stored again. */
            idempotency_key?: string | null;
            /** @description Headers that travel with the message. Each destination decides which headers it accepts (`forward_headers`). */
            headers?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Reseq processes the message only after this time has passed.
             */
            delay_ms?: number | null;
            /**
             * Format: date-time
             * @description Reseq processes the message only after this instant.
             */
            due_at?: string | null;
            /**
             * Format: int64
             * @description The priority: 9 goes first. Only without ordering.
             */
            priority?: number | null;
            /** @description True: keep the output for 60 s, so that the result can be read. */
            keep_result?: boolean | null;
            /**
             * Format: int64
             * @description The most attempts to process the message; not more than the destination allows.
             */
            attempts_max?: number | null;
            /**
             * Format: int64
             * @description The longest wait after the first failed attempt; not longer than the longest wait of the destination.
             */
            backoff_ms?: number | null;
            source?: null | components["schemas"]["MessageSource"];
        };
        /** @description The old and the new position of a message. */
        NewPosition: {
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            new_sequence: number;
            /** Format: int64 */
            epoch: number;
        };
        /** @description A new token. */
        NewToken: components["schemas"]["Token"] & {
            /** @description The token itself. Only this answer shows it; Redis stores only its SHA-256. */
            token: string;
        };
        /** @description A check that could not run, or only in part. It has neither passed nor failed. */
        NotChecked: {
            /** @description The check: one of `checks`. */
            check: string;
            /** @description Why the check could not run, in one sentence. */
            reason: string;
        };
        /**
         * @description What happens to a message when its attempts are used up, or when it can never succeed.
         * @enum {string}
         */
        OnExhausted: "halt" | "dead_letter" | "drop";
        /** @description A bulk operation. */
        Operation: components["schemas"]["OperationDetails"] & {
            id: string;
            kind: components["schemas"]["OperationKind"];
            destination: components["schemas"]["DestinationName"];
            state: components["schemas"]["OperationState"];
            /** @description True if the operation only counts. */
            dry_run: boolean;
            /** Format: date-time */
            started_at: string;
            /** Format: date-time */
            updated_at: string;
            /**
             * Format: int64
             * @description Messages that the request selects, or problems that it has found, counted so far.
             */
            matched: number;
            /**
             * Format: int64
             * @description Messages that the operation has purged, redriven, discarded, replayed or retried; problems that it has repaired.
             */
            affected: number;
            /**
             * Format: int64
             * @description Messages that the operation could not change.
             */
            failed: number;
            problem?: null | components["schemas"]["Problem"];
        };
        /** @description Fields that only some kinds of operations have. */
        OperationDetails: {
            /**
             * @description `purge` with `dry_run`: the selected messages by state.
             * @default {}
             */
            by_state: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description `purge`: messages of `affected` that leave only when their attempt has ended.
             * @default null
             */
            withdrawing: number | null;
            /**
             * Format: int64
             * @description `redrive`, `discard`: dead letters that the request names and that do not exist (any more).
             * @default null
             */
            gone: number | null;
            /**
             * Format: int64
             * @description `replay`: messages that were already stored under the same idempotency key.
             * @default null
             */
            duplicates: number | null;
            /**
             * Format: int64
             * @description `replay`: entries of the log without a body.
             * @default null
             */
            without_body: number | null;
            /** @default null */
            first_sequence: null | number;
            /** @default null */
            last_sequence: null | number;
            /** @default null */
            new_first_sequence: null | number;
            /** @default null */
            new_last_sequence: null | number;
            /**
             * @description `redrive`: the new positions of the first 1,000 messages.
             * @default []
             */
            deliveries: components["schemas"]["NewPosition"][];
            /**
             * @description `repair`: the problems found, by kind.
             * @default null
             */
            items: components["schemas"]["Found"][] | null;
            /**
             * @description `repair`: false if the operation could not compare everything: repair again.
             * @default null
             */
            counters_verified: boolean | null;
        };
        /**
         * @description The kind of an operation.
         * @enum {string}
         */
        OperationKind: "purge" | "redrive" | "discard" | "replay" | "retry_heads" | "run_now" | "repair";
        /**
         * @description The state of an operation.
         * @enum {string}
         */
        OperationState: "running" | "succeeded" | "failed" | "cancelled" | "interrupted";
        /**
         * @description Which messages must stay in order.
         * @enum {string}
         */
        Ordering: "destination" | "key" | "none";
        /** @description The original of a message that was redriven or replayed. */
        Origin: {
            destination: components["schemas"]["DestinationName"];
            /** Format: int64 */
            epoch: number;
            /** Format: int64 */
            sequence: number;
        };
        /** @description The part to pause or to resume: everything if `what` is absent. */
        Pause: {
            what?: null | components["schemas"]["PausedPart"];
        };
        /** @description The paused parts of the destination. */
        PauseState: {
            paused: components["schemas"]["Paused"];
        };
        /** @description Which parts of a destination are paused. */
        Paused: {
            /** @description True if ingest refuses messages. */
            ingest: boolean;
            /** @description True if no processor or worker can claim messages. */
            processing: boolean;
            /** @description True if the sender sends no messages. */
            delivery: boolean;
        };
        /**
         * @description A part of a destination.
         * @enum {string}
         */
        PausedPart: "delivery" | "ingest" | "processing";
        /** @description A pending message. */
        PendingMessage: components["schemas"]["MessageFields"] & components["schemas"]["MessageContent"] & {
            state: components["schemas"]["State"];
            /** Format: int64 */
            age_ms?: number | null;
            /** Format: date-time */
            due_at?: string | null;
            /** Format: date-time */
            halted_at?: string | null;
            /** Format: int32 */
            priority?: number | null;
            withdrawing: boolean;
            asked_later?: null | components["schemas"]["AskedLater"];
            lease?: null | components["schemas"]["MessageLease"];
        };
        /** @description A live process of Reseq. */
        Pod: {
            /** @description The unique name of the process. A lease of a built-in transform names it. */
            pod: string;
            /** @description The name of the machine or container. */
            host: string;
            /** @description The roles of the process: `ingest`, `processor`, `sender`. */
            roles: string[];
            /** @description The version of the process; null until its second heartbeat. */
            version?: string | null;
            /** @description The address at which the process listens for HTTP, as configured; null until its second heartbeat. */
            address?: string | null;
            /**
             * Format: date-time
             * @description When the process started; null until its second heartbeat.
             */
            started_at?: string | null;
            /**
             * Format: int32
             * @description The newest schema that the process knows.
             */
            schema: number;
            /**
             * Format: int64
             * @description How many seconds the clock of the process is ahead of the clock of Redis; 0 if they differ by at most one
             *     second.
             */
            clock_ahead_s: number;
            /**
             * Format: date-time
             * @description The process counts as dead after this time, unless it sends another heartbeat. It sends one per second.
             */
            expires_at: string;
            /** @description The partitions that the process owns: it delivers the messages of their destinations. */
            partitions: number[];
            /** @description True for the process that answers. */
            is_self: boolean;
        };
        /** @description A problem as its JSON (RFC 9457). */
        Problem: {
            /** @description The path of a page that explains the code. */
            type: string;
            /** @description What the code means, in a few words. */
            title: string;
            /**
             * Format: int32
             * @description The HTTP status.
             */
            status: number;
            /** @description The stable code that clients may rely on. */
            code: string;
            /** @description What happened and what to do, for people. */
            detail: string;
            /** @description The invalid parts of the request. */
            errors?: components["schemas"]["InvalidPart"][];
            /** @description The `x-request-id` of the request. Absent in a line of a batch. */
            request_id?: string | null;
            /**
             * Format: int64
             * @description Seconds until the same request may succeed.
             */
            retry_after?: number | null;
            id?: string;
            /** @description The copies of the message that were stored. */
            deliveries?: components["schemas"]["StoredCopy"][];
            operation?: components["schemas"]["Operation"];
            mark?: null | string;
        };
        /**
         * @description How many messages of a lane are processed at a time.
         * @enum {string}
         */
        Processing: "parallel" | "serial";
        /** @description Which messages to purge. */
        PurgeRequest: {
            /** @description True: only counts the messages. */
            dry_run?: boolean;
            /** @description Only messages with this ordering key; `""`: messages without a key. */
            key?: string | null;
        };
        /** @description A message that a consumer refuses. */
        RefuseItem: {
            token: string;
            /** @description The error; the first 2 kB are kept. */
            error?: string;
            /** @description True: no further attempt can succeed. */
            final?: boolean;
            /**
             * Format: int64
             * @description How long the message waits before the next attempt; if absent, the backoff of the definition.
             */
            retry_ms?: number | null;
        };
        /** @description A destination that was removed. */
        Removed: {
            removed: components["schemas"]["DestinationName"];
            /**
             * Format: int64
             * @description How many pending messages were removed with the destination.
             */
            removed_messages: number;
        };
        /** @description The definition of a removed destination. */
        RemovedDefinition: {
            name: components["schemas"]["DestinationName"];
            /** Format: int64 */
            version: number;
            /** Format: date-time */
            removed_at: string;
            /** @description The caller that removed the destination, as in the audit log; empty if it is not known. */
            actor: string;
            /** @description The name of the token. */
            actor_name?: string | null;
            /** @description The definition, with secrets masked. */
            definition: Record<string, never>;
        };
        /** @description A source whose mark a client removed. */
        RemovedSource: {
            name: string;
            /** @description False if the source had no mark. */
            removed: boolean;
        };
        /** @description A topic that was removed. */
        RemovedTopic: {
            removed: components["schemas"]["TopicName"];
        };
        /** @description The options of a repair. */
        RepairRequest: {
            /** @description True: finds problems, but changes nothing. */
            dry_run?: boolean;
        };
        /** @description Which messages to replay, and to which destination. */
        ReplayRequest: {
            from_sequence?: null | number;
            to_sequence?: null | number;
            /** @description Only messages delivered since this time (RFC 3339). */
            from_time?: string | null;
            /** @description Only messages delivered until this time (RFC 3339). */
            to_time?: string | null;
            to_destination?: null | components["schemas"]["DestinationName"];
            /**
             * Format: int32
             * @description The most messages per second; as fast as possible if absent.
             */
            rate_per_second?: number | null;
            /** @description True: only counts the messages. */
            dry_run?: boolean;
            /** @description A repeat with this key enqueues no message twice. Also accepted as the header `Idempotency-Key`. */
            idempotency_key?: string | null;
        };
        /** @description The checks that ran, and their findings. */
        Report: {
            /** @description The pod that answers. The checks of the clock, the rights and the damage show what this pod knows. */
            pod: string;
            /** @description The version of this pod. */
            version: string;
            /**
             * Format: int32
             * @description The newest schema that this pod knows.
             */
            schema: number;
            /** Format: date-time */
            checked_at: string;
            /** @description The names of all checks. A check has passed if it has no finding and is not in `not_checked`. */
            checks: string[];
            /** @description The findings, the worst first. */
            findings: components["schemas"]["Finding"][];
            not_checked: components["schemas"]["NotChecked"][];
        };
        /** @description A message to return unprocessed. */
        RequeueItem: {
            token: string;
            /**
             * Format: int64
             * @description How long the message waits before a worker can get it again; 0: it does not wait. One message can wait in this
             *     way 1,000 times.
             */
            delay_ms?: number;
        };
        /**
         * @description The state of the processing of a message.
         * @enum {string}
         */
        ResultState: "pending" | "processed" | "dropped" | "failed" | "cancelled" | "not_kept";
        /** @description The head that was retried; with `all`, the bulk operation. */
        Retried: components["schemas"]["HeadState"] | components["schemas"]["Operation"];
        /** @description Which head to retry, optionally with a repaired body. */
        RetryHead: {
            /** @description The ordering key of the lane, with ordering by key. */
            key?: string | null;
            sequence?: null | number;
            /** @description A repaired body, as JSON. */
            body?: unknown;
            /** @description A repaired body, in base64. */
            body_base64?: string | null;
            /** @description The content type of `body_base64`. */
            content_type?: string | null;
            /** @description True: retries all heads that are halted or in backoff, instead of one head. */
            all?: boolean;
            /**
             * Format: int32
             * @description With `all`: the most retries per second; as fast as possible if absent.
             */
            rate_per_second?: number | null;
        };
        /** @description A token that was revoked. */
        RevokedToken: {
            revoked: string;
        };
        /** @description The version that a rollback restores. */
        Rollback: {
            /**
             * Format: int64
             * @description One of the kept versions; if absent, the version before the current one.
             * @default null
             */
            to: number | null;
        };
        /** @description Which delayed messages to make due. */
        RunNowRequest: {
            /** @description True: only counts the messages. */
            dry_run?: boolean;
            /** @description Only messages with this ordering key; `""`: messages without a key. */
            key?: string | null;
        };
        /**
         * @description A kind of calls that a token allows.
         * @enum {string}
         */
        Scope: "ingest" | "work" | "read" | "operate" | "admin";
        /** @description The dead letters of a redrive or a discard. Give exactly one of `sequences`, `all` and `filter`. */
        Selection: {
            /** @description The dead letters with these sequences. */
            sequences?: number[] | null;
            /** @description True: all dead letters of the destination. */
            all?: boolean;
            filter?: null | components["schemas"]["Filter"];
            /** @description True: only counts the dead letters. */
            dry_run?: boolean;
            /**
             * Format: int32
             * @description Redrive: the most dead letters per second; as fast as possible if absent.
             */
            rate_per_second?: number | null;
        };
        /**
         * @description How bad a finding is.
         * @enum {string}
         */
        Severity: "error" | "warning" | "info";
        /** @description How deliveries are signed, according to Standard Webhooks. */
        Sign: {
            /**
             * @description `whsec_…` for `v1` (HMAC-SHA256), `whsk_…` for `v1a` (Ed25519). Each secret makes a signature, so that during a
             *     change a receiver may know the old or the new secret.
             */
            secrets: string[];
        };
        /**
         * @description How a signature is written.
         * @enum {string}
         */
        SignatureEncoding: "hex" | "base64" | "base64_url";
        /** @description Which head to skip. */
        SkipHead: {
            /** @description The ordering key of the lane, with ordering by key. */
            key?: string | null;
            /**
             * Format: int64
             * @description The sequence of the expected head. If another message is the head now, the call is refused, so that a repeated
             *     call skips no other message.
             */
            sequence: number;
        };
        /** @description A source that has sent messages to the destination. */
        Source: {
            name: string;
            /** @description The position of the last message of the source. */
            mark: string;
        };
        /** @description All sources of a destination. */
        Sources: {
            /** @description The sources, by name; at most `sources_max`. */
            items: components["schemas"]["Source"][];
        };
        /**
         * @description The stage of an attempt.
         * @enum {string}
         */
        Stage: "transform" | "delivery";
        /**
         * @description The state of a message.
         * @enum {string}
         */
        State: "waiting" | "processing" | "delayed" | "ready" | "delivering" | "halted" | "damaged" | "delivered" | "dropped" | "dead_lettered" | "cancelled";
        /** @description A destination's numbers, read at one instant. */
        Stats: {
            /**
             * Format: int64
             * @description The last sequence that was stamped; with several shards, the sum of theirs.
             */
            last_sequence: number;
            /**
             * Format: int64
             * @description Messages that have not left: the sum of the next six numbers. Together with the totals of messages that have
             *     left, it equals `last_sequence`.
             */
            pending: number;
            /**
             * Format: int64
             * @description Messages that wait for processing.
             */
            waiting: number;
            /**
             * Format: int64
             * @description Messages under a lease.
             */
            processing: number;
            /**
             * Format: int64
             * @description Messages that are processed, or need no processing, and wait for their turn to be delivered.
             */
            ready: number;
            /**
             * Format: int64
             * @description Messages in delivery.
             */
            delivering: number;
            /**
             * Format: int64
             * @description Messages that have no attempts left: their lanes wait for an operator.
             */
            halted: number;
            /**
             * Format: int64
             * @description Messages that may not be processed yet, or wait for their backoff.
             */
            delayed: number;
            /**
             * Format: int64
             * @description The bytes of the pending messages' bodies as they arrived.
             */
            pending_bytes: number;
            /**
             * Format: int64
             * @description Dead letters. They are not pending.
             */
            dead_letters: number;
            /**
             * Format: int64
             * @description Messages that receivers have accepted.
             */
            delivered_total: number;
            /**
             * Format: int64
             * @description Messages that their transform or a policy dropped.
             */
            dropped_total: number;
            /**
             * Format: int64
             * @description Messages that became dead letters.
             */
            dead_lettered_total: number;
            /**
             * Format: int64
             * @description Messages that were cancelled.
             */
            cancelled_total: number;
            /** @description Which parts are paused. */
            paused: components["schemas"]["Paused"];
            /**
             * @description Fields of the destination's hash and keys that cannot be read. Their numbers are 0, and numbers derived from
             *     them are wrong.
             */
            damaged?: string[];
            /** @description Why the destination needs attention, the worst cause first; empty if it needs none. */
            attention: components["schemas"]["Attention"][];
            head?: null | components["schemas"]["Head"];
            /** @description The oldest heads, if the destination has several lanes. */
            heads?: components["schemas"]["Head"][];
        };
        /** @description The copy of a message in one destination. */
        StoredCopy: {
            /** @description The destination; with several shards, the shard that holds the copy, such as `orders~3`. */
            destination: components["schemas"]["DestinationName"];
            /** Format: int64 */
            sequence: number;
            /** Format: int64 */
            epoch: number;
            /**
             * @description True if the message had been stored before, under the same idempotency key or from the same position of its
             *     source. In the second case, sequence and epoch are 0, because they are not known. Also true if the message only
             *     moves the mark of its source.
             */
            duplicate: boolean;
            /** @description The durability that the message has reached. */
            durability: components["schemas"]["Durability"];
            /** @description The id of the first message, for a duplicate under an idempotency key. */
            id?: string | null;
        };
        /** @description A token, without its secret. */
        Token: components["schemas"]["Grant"] & {
            id: string;
            name: string;
            /** Format: date-time */
            created_at: string;
            /**
             * Format: date-time
             * @description When the token ends; null: never.
             */
            expires_at?: string | null;
            expired: boolean;
            /**
             * Format: date-time
             * @description When the token was last used, up to some seconds late; null: no known use.
             */
            last_used_at?: string | null;
        };
        /** @description A token to create. */
        TokenRequest: {
            /** @description A name that says what the token is for. */
            name: string;
            /** @description The scopes: what the holder may do. */
            scopes: components["schemas"]["Scope"][];
            /** @description The destinations that the holder may use; all if absent. */
            destinations?: components["schemas"]["DestinationName"][] | null;
            /**
             * Format: int64
             * @description The token ends after this time; never if absent.
             */
            expires_in_ms?: number | null;
            /**
             * Format: int32
             * @description The most messages that each process accepts from the holder in one second; 0: no limit.
             */
            rate_per_second_max?: number;
        };
        /** @description A topic, as the API shows it. */
        Topic: {
            name: components["schemas"]["TopicName"];
            destinations: components["schemas"]["DestinationName"][];
            defined_in_file: boolean;
        };
        /** @description The definition of a topic, as PUT takes it. */
        TopicDefinition: {
            name?: null | components["schemas"]["TopicName"];
            /** @description The destinations. Each gets a copy of a published message. */
            destinations: components["schemas"]["DestinationName"][];
        };
        /** @description A topic's name: `[a-z0-9._-]{1,64}`, like a destination's. */
        TopicName: string;
        /** @description Sums over all destinations. */
        Totals: {
            /** Format: int64 */
            pending: number;
            /** Format: int64 */
            waiting: number;
            /** Format: int64 */
            processing: number;
            /** Format: int64 */
            ready: number;
            /** Format: int64 */
            delivering: number;
            /** Format: int64 */
            halted: number;
            /** Format: int64 */
            delayed: number;
            /** Format: int64 */
            pending_bytes: number;
            /** Format: int64 */
            dead_letters: number;
            /** Format: int64 */
            delivered_total: number;
            /** Format: int64 */
            dropped_total: number;
            /** Format: int64 */
            dead_lettered_total: number;
            /** Format: int64 */
            cancelled_total: number;
            /**
             * Format: int64
             * @description How many destinations need attention. A destination whose server does not answer is one of them.
             */
            needs_attention: number;
        };
        /** @description How messages are processed. */
        Transform: {
            /** @default none */
            kind: components["schemas"]["TransformKind"];
            /**
             * @description `http`: the URL that gets the body by POST.
             * @default null
             */
            url: string | null;
            /**
             * @description `native`: the name that the Rust transform was registered under.
             * @default null
             */
            name: string | null;
            /**
             * @description `jq`: the expression.
             * @default null
             */
            expression: string | null;
            /** @default {} */
            headers: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Time limit of one attempt, in milliseconds.
             * @default 30000
             */
            timeout_ms: number;
            /**
             * Format: int64
             * @description `worker`: an attempt fails this many milliseconds after it began or last saved a checkpoint, even if the worker
             *     extends its lease; 0: never.
             * @default 3600000
             */
            attempt_ms_max: number;
            /**
             * Format: int32
             * @description The most attempts that run at once in one processor pod.
             * @default 64
             */
            concurrency: number;
            /**
             * Format: int32
             * @description The most attempts started per second, over all processors and workers; 0: no limit.
             * @default 0
             */
            rate_per_second_max: number;
            /**
             * Format: int32
             * @description How many of these attempts may start at once, after a time without attempts.
             * @default 1
             */
            burst: number;
            /**
             * Format: int32
             * @description After this many failed attempts, Reseq gives the message up (`on_exhausted`); 0: never.
             * @default 10
             */
            attempts_max: number;
            /**
             * Format: int32
             * @description After this many expired leases (its processors died), Reseq gives the message up; 0: never.
             * @default 5
             */
            stalls_max: number;
            /**
             * Format: int64
             * @description The upper limit of the first wait between attempts, in milliseconds.
             * @default 200
             */
            backoff_ms: number;
            /**
             * Format: int64
             * @description The longest wait between attempts, in milliseconds.
             * @default 30000
             */
            backoff_max_ms: number;
            /**
             * Format: int64
             * @description The longest `Retry-After` that is honoured, in milliseconds.
             * @default 3600000
             */
            retry_after_max_ms: number;
        };
        /**
         * @description Who processes a destination's messages.
         * @enum {string}
         */
        TransformKind: "none" | "http" | "worker" | "jq" | "native";
        /** @description A log entry that cannot be read. */
        Unreadable: {
            /** @description The shard of the message, in lists of a destination with several. */
            shard?: string | null;
            /** Format: int64 */
            sequence: number;
            /** @description The reason why the entry cannot be read. */
            damaged: string;
        };
        /** @description How the signatures of arriving requests are verified. */
        Verify: {
            /** @description Who signs, and how. */
            kind: components["schemas"]["VerifyKind"];
            /** @description The secrets. A signature with one of them is enough, so that a secret can be changed without a pause. */
            secrets: string[];
            /**
             * Format: int64
             * @description The longest difference between the time of a signature and now, in milliseconds; 5 minutes if absent. Only for
             *     signatures that cover a time.
             */
            tolerance_ms?: number | null;
            /** @description `hmac`: the header with the signature. */
            header?: string | null;
            algorithm?: null | components["schemas"]["HmacAlgorithm"];
            encoding?: null | components["schemas"]["SignatureEncoding"];
            /** @description `hmac`: the text before the signature in its header, such as `sha256=`. */
            prefix?: string | null;
            /** @description `hmac`: the header with the time of the signature. */
            timestamp_header?: string | null;
            /** @description `hmac`: the header with the id of the message. The id becomes the idempotency key, if the signature covers it. */
            id_header?: string | null;
            /** @description `hmac`: the text that is signed, with `{body}`, `{timestamp}` and `{id}`. */
            signed?: string | null;
        };
        /**
         * @description Who signs requests, and how.
         * @enum {string}
         */
        VerifyKind: "standard_webhooks" | "stripe" | "github" | "hmac";
        /** @description The cause that blocks a lane, with details. */
        Why: {
            destination: components["schemas"]["DestinationName"];
            /** @description The ordering key of the lane, with ordering by key. */
            key?: string | null;
            cause: components["schemas"]["BlockedBy"];
            /** @description The cause in one sentence. */
            explanation: string;
            head?: null | components["schemas"]["PendingMessage"];
            /**
             * Format: int64
             * @description For how many milliseconds the message has been the head; absent if that is not known (any more).
             */
            blocked_ms?: number | null;
            /**
             * @description How many of these milliseconds each cause took, since the head was first sampled. Absent if another process
             *     samples the lane, or no process has sampled it yet.
             */
            blocked_ms_by_cause?: {
                [key: string]: number;
            } | null;
            /**
             * Format: date-time
             * @description When the next attempt of the head begins, if the head waits for an attempt.
             */
            next_attempt_at?: string | null;
            /**
             * Format: int64
             * @description How many messages of the lane wait behind the head.
             */
            behind: number;
            /**
             * Format: int64
             * @description The total size of the bodies behind the head, in bytes; absent if the destination has several lanes.
             */
            bytes_behind?: number | null;
            /** @description The pod that delivers the messages of this destination; absent if there is none. */
            owner?: string | null;
            /**
             * Format: date-time
             * @description When the owner last reported that it is alive.
             */
            owner_seen_at?: string | null;
            /** @description Sentences about the whole destination. */
            summary: string[];
            /** @description Actions that an operator can take. */
            actions: components["schemas"]["Action"][];
        };
        /** @description The result of a withdrawal. */
        Withdrawal: {
            /** Format: int64 */
            sequence: number;
            state: components["schemas"]["WithdrawalState"];
            /** @description The reason why a message is still pending. */
            detail?: string | null;
        };
        /**
         * @description The state of a message that is withdrawn.
         * @enum {string}
         */
        WithdrawalState: "cancelled" | "dead_lettered" | "dropped" | "withdrawing";
        /** @description The name of a holder of leases: a name that a worker chose, or the name of a pod. `[A-Za-z0-9._:@-]{1,64}` */
        WorkerName: string;
    };
    responses: {
        /** @description - `wrong_state`: Not possible in this state */
        AwaitsResultConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_message`: Unknown message
         */
        AwaitsResultNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         */
        BadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        ChangesBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_state`: Not possible in this state */
        ChangesConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_state`: Not possible in this state */
        ChangesMessageConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_message`: Unknown message
         */
        ChangesMessageNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        ChangesMessageServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_message`: Unknown message
         */
        ChangesNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        ChangesPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        ChangesRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         *     - `draining`: Process stopping
         */
        ChangesServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `too_many_requests`: Too many requests at once
         *     - `backlog_full`: Backlog full
         */
        ChangesTooManyRequests: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unauthorized`: No valid token
         *     - `no_signature`: No signature
         */
        ChangesUnauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        DefinesDestinationBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `wrong_state`: Not possible in this state
         *     - `defined_in_file`: Defined in the configuration file
         */
        DefinesDestinationConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_destination`: Unknown destination */
        DefinesDestinationNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        DefinesDestinationPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_version`: Changed meanwhile */
        DefinesDestinationPreconditionFailed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        DefinesDestinationRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        DefinesDestinationServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `refused_address`: Address not allowed */
        DefinesDestinationUnprocessableEntity: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        DefinesTopicBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `wrong_state`: Not possible in this state
         *     - `defined_in_file`: Defined in the configuration file
         */
        DefinesTopicConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_topic`: Unknown topic
         */
        DefinesTopicNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        DefinesTopicPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        DefinesTopicRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        DefinesTopicServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `forbidden`: Not allowed
         *     - `forbidden_origin`: Not from this machine or page
         */
        Forbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        IngestsBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        IngestsBatchBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `source_gap`: Not the next message of its source
         *     - `sources_full`: Too many sources
         */
        IngestsBatchConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `forbidden`: Not allowed
         *     - `forbidden_origin`: Not from this machine or page
         */
        IngestsBatchForbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `damaged`: Damaged data
         *     - `unreadable`: Unreadable data
         */
        IngestsBatchInternalServerError: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_topic`: Unknown topic
         *     - `not_found`: Unknown path
         */
        IngestsBatchNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /** @description - `body_too_large`: Body too large */
        IngestsBatchPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /** @description - `body_timeout`: Body too slow */
        IngestsBatchRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         *     - `cannot_confirm`: Durability not available
         *     - `aborted`: Earlier message failed
         *     - `key_unavailable`: Key not found in time
         *     - `no_room`: Too many bytes in flight
         *     - `draining`: Process stopping
         */
        IngestsBatchServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `too_many_requests`: Too many requests at once
         *     - `backlog_full`: Backlog full
         *     - `rate_limited`: Too many messages in a second
         *     - `paused`: Ingest paused
         */
        IngestsBatchTooManyRequests: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /** @description - `uri_too_long`: URI too long */
        IngestsBatchURITooLong: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `unauthorized`: No valid token
         *     - `no_signature`: No signature
         *     - `invalid_signature`: Signature not valid
         *     - `timestamp_outside_tolerance`: Signed too long ago
         */
        IngestsBatchUnauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `idempotency_conflict`: Idempotency key used before
         *     - `no_key`: No key in the message
         */
        IngestsBatchUnprocessableEntity: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /** @description - `unsupported_media_type`: Unsupported media type */
        IngestsBatchUnsupportedMediaType: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
                "application/x-ndjson": string;
            };
        };
        /**
         * @description - `source_gap`: Not the next message of its source
         *     - `sources_full`: Too many sources
         */
        IngestsConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_topic`: Unknown topic
         *     - `not_found`: Unknown path
         */
        IngestsNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        IngestsPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        IngestsRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         *     - `cannot_confirm`: Durability not available
         *     - `aborted`: Earlier message failed
         *     - `key_unavailable`: Key not found in time
         *     - `no_room`: Too many bytes in flight
         *     - `draining`: Process stopping
         */
        IngestsServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `too_many_requests`: Too many requests at once
         *     - `backlog_full`: Backlog full
         *     - `rate_limited`: Too many messages in a second
         *     - `paused`: Ingest paused
         */
        IngestsTooManyRequests: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unauthorized`: No valid token
         *     - `no_signature`: No signature
         *     - `invalid_signature`: Signature not valid
         *     - `timestamp_outside_tolerance`: Signed too long ago
         */
        IngestsUnauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `idempotency_conflict`: Idempotency key used before
         *     - `no_key`: No key in the message
         */
        IngestsUnprocessableEntity: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unsupported_media_type`: Unsupported media type */
        IngestsUnsupportedMediaType: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `damaged`: Damaged data
         *     - `unreadable`: Unreadable data
         */
        InternalServerError: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        MakesTokenBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `wrong_state`: Not possible in this state
         *     - `too_many_tokens`: Too many tokens
         */
        MakesTokenConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        MakesTokenPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        MakesTokenRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        MakesTokenServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `not_found`: Unknown path */
        MetricsNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_destination`: Unknown destination */
        ReadsDestinationNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_message`: Unknown message
         */
        ReadsMessageNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `unknown_destination`: Unknown destination
         *     - `unknown_operation`: Unknown operation
         */
        ReadsOperationNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `not_confirmed`: Not confirmed
         */
        ReadsOperationServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_token`: Unknown token */
        ReadsTokenNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_topic`: Unknown topic */
        ReadsTopicNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `wrong_state`: Not possible in this state
         *     - `defined_in_file`: Defined in the configuration file
         */
        RemovesDestinationConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_destination`: Unknown destination */
        RemovesDestinationNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        RemovesDestinationServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_state`: Not possible in this state */
        RevokesTokenConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_token`: Unknown token */
        RevokesTokenNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        RevokesTokenServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        RollsBackBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `wrong_state`: Not possible in this state
         *     - `defined_in_file`: Defined in the configuration file
         */
        RollsBackConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_destination`: Unknown destination */
        RollsBackNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        RollsBackPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_version`: Changed meanwhile */
        RollsBackPreconditionFailed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        RollsBackRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         */
        RollsBackServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         */
        ServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `too_many_requests`: Too many requests at once */
        TooManyRequests: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `uri_too_long`: URI too long */
        URITooLong: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unauthorized`: No valid token */
        Unauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `invalid_request`: Invalid request
         *     - `invalid_field`: Invalid field
         *     - `invalid_json`: Invalid JSON
         *     - `invalid_body`: Incomplete body
         */
        WorksBadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `wrong_state`: Not possible in this state */
        WorksConflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `unknown_destination`: Unknown destination */
        WorksNotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_too_large`: Body too large */
        WorksPayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description - `body_timeout`: Body too slow */
        WorksRequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description - `redis_unavailable`: Redis unavailable
         *     - `redis_refuses_writes`: Redis refuses writes
         *     - `no_rights`: Missing Redis right
         *     - `newer_schema`: Newer schema
         *     - `no_secrets_key`: Key of secrets missing
         *     - `connections_full`: Too many connections
         *     - `memory_high`: Redis memory high
         *     - `not_confirmed`: Not confirmed
         *     - `draining`: Process stopping
         */
        WorksServiceUnavailable: {
            headers: {
                /** @description Seconds until the request may succeed */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    list_messages: {
        parameters: {
            query?: {
                /** @description Only messages in this state. */
                state?: components["schemas"]["State"];
                /** @description Only messages with this ordering key; `""`: messages without a key. */
                key?: string;
                /** @description Only messages from this sequence on. */
                from_sequence?: number;
                /** @description Only messages up to this sequence. */
                to_sequence?: number;
                /** @description Only messages received since this time (RFC 3339). */
                from_time?: string;
                /** @description Only messages received until this time (RFC 3339). */
                to_time?: string;
                /** @description Only messages with this text in the detail of one of the errors. */
                error?: string;
                /** @description The approximate size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of pending messages */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_PendingMessage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    send_message: {
        parameters: {
            query?: never;
            header?: {
                /** @description The idempotency key, with or without quotes. A repeated message with the same key is not stored again. */
                "Idempotency-Key"?: string | null;
                /** @description The ordering key, percent-encoded. */
                "Reseq-Key"?: string | null;
                /** @description The id of the message, percent-encoded; a new UUID if absent. */
                "Reseq-Id"?: string | null;
                /** @description Reseq processes the message only after this time has passed, such as `15s`. */
                "Reseq-Delay"?: string | null;
                /** @description Reseq processes the message only after this instant (RFC 3339). */
                "Reseq-Due-At"?: string | null;
                /** @description The priority, 0 to 9: 9 goes first. */
                "Reseq-Priority"?: number | null;
                /** @description `true`: keep the output for 60 s, so that the result can be read. */
                "Reseq-Keep-Result"?: string | null;
                /** @description The most attempts to process the message, such as `3`; not more than the destination allows. */
                "Reseq-Attempts-Max"?: string | null;
                /** @description The longest wait after the first failed attempt, such as `15s`. */
                "Reseq-Backoff"?: string | null;
                /** @description The source of the message: `name="orders/3", position="0012", after="0011"`. */
                "Reseq-Source"?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        /** @description The message, of any content type */
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            /** @description Redis has the message */
            202: {
                headers: {
                    /** @description `true`, if nothing was stored, because all of it had been stored before */
                    "Idempotent-Replayed"?: boolean;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            400: components["responses"]["IngestsBadRequest"];
            401: components["responses"]["IngestsUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["IngestsNotFound"];
            408: components["responses"]["IngestsRequestTimeout"];
            409: components["responses"]["IngestsConflict"];
            413: components["responses"]["IngestsPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            415: components["responses"]["IngestsUnsupportedMediaType"];
            422: components["responses"]["IngestsUnprocessableEntity"];
            429: components["responses"]["IngestsTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["IngestsServiceUnavailable"];
        };
    };
    cancel_message_by_idempotency_key: {
        parameters: {
            query: {
                /**
                 * @description The idempotency key of the message.
                 * @example order-7
                 */
                idempotency_key: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is cancelled */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            /** @description It leaves when its attempt has ended */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesMessageNotFound"];
            409: components["responses"]["ChangesMessageConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesMessageServiceUnavailable"];
        };
    };
    show_message: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the message
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The message, or what became of it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsMessageNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    cancel_message: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the message
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is cancelled */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            /** @description It leaves when its attempt has ended */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesMessageNotFound"];
            409: components["responses"]["ChangesMessageConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesMessageServiceUnavailable"];
        };
    };
    show_message_by_id: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The id of the message; of several with the same id, the last
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The message, or what became of it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsMessageNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    find_messages_by_id: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the message
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The last message with this id of each destination that has one */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessagesFound"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    await_result: {
        parameters: {
            query: {
                /**
                 * @description The id of the message.
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
                /** @description Wait up to this long if the message is not processed yet. */
                wait_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the message
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The result, or that there is none yet */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["AwaitsResultNotFound"];
            409: components["responses"]["AwaitsResultConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    run_message_now: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the message
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is due now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HeadState"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesMessageNotFound"];
            409: components["responses"]["ChangesMessageConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesMessageServiceUnavailable"];
        };
    };
    run_now: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": null | components["schemas"]["RunNowRequest"];
            };
        };
        responses: {
            /** @description The operation has ended */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description The operation continues after this answer */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    list_destinations: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_Destination"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    show_destination: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The definition */
            200: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    define_destination: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change only this version: an ETag, or `*` */
                "If-Match"?: string | null;
                /** @description `*`: create, but never change */
                "If-None-Match"?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "delivery": {
                 *         "timeout_ms": 5000
                 *       },
                 *       "transform": {
                 *         "kind": "worker"
                 *       },
                 *       "url": "http://127.0.0.1:9001/in"
                 *     }
                 */
                "application/json": components["schemas"]["DestinationDefinition"];
            };
        };
        responses: {
            /** @description It is changed, or was the same */
            200: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            /** @description It is created */
            201: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["DefinesDestinationBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["DefinesDestinationNotFound"];
            408: components["responses"]["DefinesDestinationRequestTimeout"];
            409: components["responses"]["DefinesDestinationConflict"];
            412: components["responses"]["DefinesDestinationPreconditionFailed"];
            413: components["responses"]["DefinesDestinationPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            422: components["responses"]["DefinesDestinationUnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["DefinesDestinationServiceUnavailable"];
        };
    };
    remove_destination: {
        parameters: {
            query?: {
                /** @description True: also removes its pending messages and dead letters. */
                force?: boolean;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Removed"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["RemovesDestinationNotFound"];
            409: components["responses"]["RemovesDestinationConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["RemovesDestinationServiceUnavailable"];
        };
    };
    change_destination: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change only this version: an ETag, or `*` */
                "If-Match"?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        /** @description A merge patch (RFC 7396): what is absent stays, null stands for the default */
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "delivery": {
                 *         "timeout_ms": 3000
                 *       }
                 *     }
                 */
                "application/merge-patch+json": components["schemas"]["DestinationPatch"];
            };
        };
        responses: {
            /** @description It is changed */
            200: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["DefinesDestinationBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["DefinesDestinationNotFound"];
            408: components["responses"]["DefinesDestinationRequestTimeout"];
            409: components["responses"]["DefinesDestinationConflict"];
            412: components["responses"]["DefinesDestinationPreconditionFailed"];
            413: components["responses"]["DefinesDestinationPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            422: components["responses"]["DefinesDestinationUnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["DefinesDestinationServiceUnavailable"];
        };
    };
    list_sources: {
        parameters: {
            query?: {
                /**
                 * @description Only the source with this name.
                 * @example orders/3
                 */
                name?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The mark of each source */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Sources"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    remove_source: {
        parameters: {
            query: {
                /**
                 * @description The name of the source.
                 * @example orders/3
                 */
                name: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It has no mark any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RemovedSource"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesMessageNotFound"];
            409: components["responses"]["ChangesMessageConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesMessageServiceUnavailable"];
        };
    };
    list_removed_destinations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The last ones of 7 days, by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_RemovedDefinition"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    restore_destination: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the removed destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It exists, with this definition */
            200: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            /** @description It is created, without messages */
            201: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["RollsBackBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["RollsBackNotFound"];
            408: components["responses"]["RollsBackRequestTimeout"];
            409: components["responses"]["RollsBackConflict"];
            412: components["responses"]["RollsBackPreconditionFailed"];
            413: components["responses"]["RollsBackPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["RollsBackServiceUnavailable"];
        };
    };
    list_versions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The last versions, the newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_DestinationVersion"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    diff_destination: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "delivery": {
                 *         "timeout_ms": 5000
                 *       },
                 *       "transform": {
                 *         "kind": "worker"
                 *       },
                 *       "url": "http://127.0.0.1:9001/in"
                 *     }
                 */
                "application/json": components["schemas"]["DestinationDefinition"];
            };
        };
        responses: {
            /** @description What PUT would change; nothing has changed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DefinitionDiff"];
                };
            };
            400: components["responses"]["DefinesDestinationBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["DefinesDestinationNotFound"];
            408: components["responses"]["DefinesDestinationRequestTimeout"];
            409: components["responses"]["DefinesDestinationConflict"];
            412: components["responses"]["DefinesDestinationPreconditionFailed"];
            413: components["responses"]["DefinesDestinationPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            422: components["responses"]["DefinesDestinationUnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["DefinesDestinationServiceUnavailable"];
        };
    };
    roll_back_destination: {
        parameters: {
            query?: never;
            header?: {
                /** @description Change only this version: an ETag, or `*` */
                "If-Match"?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        /** @description The version to take */
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "to": 1
                 *     }
                 */
                "application/json": null | components["schemas"]["Rollback"];
            };
        };
        responses: {
            /** @description It is defined as in that version, or was the same */
            200: {
                headers: {
                    /** @description For `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["RollsBackBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["RollsBackNotFound"];
            408: components["responses"]["RollsBackRequestTimeout"];
            409: components["responses"]["RollsBackConflict"];
            412: components["responses"]["RollsBackPreconditionFailed"];
            413: components["responses"]["RollsBackPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["RollsBackServiceUnavailable"];
        };
    };
    list_stats: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before; only with `sort=name`. */
                cursor?: string;
                /** @description The order of the destinations. An order other than `name` has one page. */
                sort?: "name" | "pending" | "stuck";
                /** @description True: adds the oldest heads of each listed destination. */
                heads?: boolean;
                /** @description True: only the destinations that need attention. */
                attention?: boolean;
                /** @description False: leaves out the sums over all destinations, which need a read of each destination. `true` if absent. */
                totals?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, and totals */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AllStats"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    show_stats: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Its numbers, and its oldest heads */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Stats"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    why: {
        parameters: {
            query?: {
                /**
                 * @description The ordering key of the lane; `""`: the lane of messages without a key. If absent: the lane with the oldest
                 *     head.
                 */
                key?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What blocks the lane, and what to do */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Why"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    list_lanes: {
        parameters: {
            query?: {
                /** @description The most lanes of the answer. */
                limit?: number;
                /** @description The `next_cursor` of the previous page. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The largest lanes of a part of the keys */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Lanes"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    list_pods: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_Pod"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    doctor: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What was checked and found */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Report"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    list_tokens: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by id */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_Token"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    make_token: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "destinations": [
                 *         "orders"
                 *       ],
                 *       "name": "orders-service",
                 *       "scopes": [
                 *         "ingest"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["TokenRequest"];
            };
        };
        responses: {
            /** @description The token, shown this once */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewToken"];
                };
            };
            400: components["responses"]["MakesTokenBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["MakesTokenRequestTimeout"];
            409: components["responses"]["MakesTokenConflict"];
            413: components["responses"]["MakesTokenPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["MakesTokenServiceUnavailable"];
        };
    };
    show_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the token
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The token, without its secret */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Token"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsTokenNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    revoke_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The id of the token
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is valid no longer: within a second at all pods */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevokedToken"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["RevokesTokenNotFound"];
            409: components["responses"]["RevokesTokenConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["RevokesTokenServiceUnavailable"];
        };
    };
    list_audit: {
        parameters: {
            query?: {
                /** @description Only actions of this caller: the id or the name of its token, or another value of `actor`. */
                actor?: string;
                /** @description Only entries with this action, for example `purge`. */
                action?: string;
                /** @description Only actions that concern this destination. */
                destination?: components["schemas"]["DestinationName"];
                /** @description Only actions since this time (RFC 3339). */
                from_time?: string;
                /** @description Only actions until this time (RFC 3339). */
                to_time?: string;
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, the newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_AuditEntry"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    list_topics: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_Topic"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    show_topic: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the topic
                 * @example all-orders
                 */
                topic: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The topic */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Topic"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsTopicNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    define_topic: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the topic
                 * @example all-orders
                 */
                topic: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "destinations": [
                 *         "orders"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["TopicDefinition"];
            };
        };
        responses: {
            /** @description It is changed, or was the same */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Topic"];
                };
            };
            /** @description It is created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Topic"];
                };
            };
            400: components["responses"]["DefinesTopicBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["DefinesTopicNotFound"];
            408: components["responses"]["DefinesTopicRequestTimeout"];
            409: components["responses"]["DefinesTopicConflict"];
            413: components["responses"]["DefinesTopicPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["DefinesTopicServiceUnavailable"];
        };
    };
    remove_topic: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the topic
                 * @example all-orders
                 */
                topic: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RemovedTopic"];
                };
            };
            400: components["responses"]["DefinesTopicBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["DefinesTopicNotFound"];
            408: components["responses"]["DefinesTopicRequestTimeout"];
            409: components["responses"]["DefinesTopicConflict"];
            413: components["responses"]["DefinesTopicPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["DefinesTopicServiceUnavailable"];
        };
    };
    pause: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "what": "delivery"
                 *     }
                 */
                "application/json": null | components["schemas"]["Pause"];
            };
        };
        responses: {
            /** @description What is paused now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PauseState"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    resume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": null | components["schemas"]["Pause"];
            };
        };
        responses: {
            /** @description What is paused now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PauseState"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    retry_head: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "all": true
                 *     }
                 */
                "application/json": null | components["schemas"]["RetryHead"];
            };
        };
        responses: {
            /** @description Its state now; with `all`: it is done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Retried"];
                };
            };
            /** @description With `all`: it goes on */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    skip_head: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "sequence": 1
                 *     }
                 */
                "application/json": components["schemas"]["SkipHead"];
            };
        };
        responses: {
            /** @description It is a dead letter */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            /** @description It leaves when its attempt has ended */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Withdrawal"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    purge: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "dry_run": true
                 *     }
                 */
                "application/json": null | components["schemas"]["PurgeRequest"];
            };
        };
        responses: {
            /** @description The operation has ended */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description The operation continues after this answer */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    repair: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "dry_run": true
                 *     }
                 */
                "application/json": null | components["schemas"]["RepairRequest"];
            };
        };
        responses: {
            /** @description The operation has ended */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description The operation continues after this answer */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    list_dead_letters: {
        parameters: {
            query?: {
                /** @description Only dead letters with this ordering key; `""`: dead letters without a key. */
                key?: string;
                /** @description Only dead letters of this stage. */
                stage?: components["schemas"]["Stage"];
                /** @description Only dead letters from this sequence on. */
                from_sequence?: number;
                /** @description Only dead letters up to this sequence. */
                to_sequence?: number;
                /** @description Only messages that became dead letters since this time (RFC 3339). */
                from_time?: string;
                /** @description Only messages that became dead letters until this time (RFC 3339). */
                to_time?: string;
                /** @description Only dead letters with this text in the reason, or in the detail of one of the errors. */
                error?: string;
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by sequence */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_DeadLetter"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    show_dead_letter: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the dead letter
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The dead letter, with its body */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLetter"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsMessageNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    discard_dead_letter: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The sequence of the dead letter
                 * @example 1
                 */
                sequence: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is discarded */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Discarded"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesMessageNotFound"];
            409: components["responses"]["ChangesMessageConflict"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesMessageServiceUnavailable"];
        };
    };
    redrive: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "all": true,
                 *       "dry_run": true
                 *     }
                 */
                "application/json": components["schemas"]["Selection"];
            };
        };
        responses: {
            /** @description The operation has ended */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description The operation continues after this answer */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    discard: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "all": true,
                 *       "dry_run": true
                 *     }
                 */
                "application/json": components["schemas"]["Selection"];
            };
        };
        responses: {
            /** @description The operation has ended */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description The operation continues after this answer */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    list_log: {
        parameters: {
            query?: {
                /** @description Only messages with this ordering key; `""`: messages without a key. */
                key?: string;
                /** @description Only messages that left with this state. */
                state?: components["schemas"]["State"];
                /** @description Only messages from this sequence on. */
                from_sequence?: number;
                /** @description Only messages up to this sequence. */
                to_sequence?: number;
                /** @description Only messages that left since this time (RFC 3339). */
                from_time?: string;
                /** @description Only messages that left until this time (RFC 3339). */
                to_time?: string;
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_LogEntry"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    tail_deliveries: {
        parameters: {
            query?: {
                /** @description Only deliveries of this destination. */
                destination?: string;
                /** @description Only deliveries of messages with this ordering key; `""`: messages without a key. */
                key?: string;
                /** @description Only deliveries with this outcome. */
                outcome?: "accepted" | "refused";
                /** @description The answer ends after this time, in milliseconds. */
                duration_ms?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A line of JSON for each delivery, until the time is up */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    replay: {
        parameters: {
            query?: never;
            header?: {
                /** @description `respond-async`, or `wait=<seconds>` for the end (RFC 7240); 10 s if absent */
                Prefer?: string | null;
                /** @description The same as the field */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "dry_run": true,
                 *       "from_sequence": 1
                 *     }
                 */
                "application/json": components["schemas"]["ReplayRequest"];
            };
        };
        responses: {
            /** @description The operation has ended */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            /** @description The operation continues after this answer */
            202: {
                headers: {
                    /** @description Where the operation can be read */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["ChangesBadRequest"];
            401: components["responses"]["ChangesUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ChangesNotFound"];
            408: components["responses"]["ChangesRequestTimeout"];
            409: components["responses"]["ChangesConflict"];
            413: components["responses"]["ChangesPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["ChangesTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ChangesServiceUnavailable"];
        };
    };
    list_operations: {
        parameters: {
            query?: {
                /** @description The size of a page. */
                limit?: number;
                /** @description The `next_cursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Items_Operation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsDestinationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    show_operation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The id of the operation
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The operation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsOperationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ReadsOperationServiceUnavailable"];
        };
    };
    cancel_operation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
                /**
                 * @description The id of the operation
                 * @example 01a20b3e-5f0c-7cc1-9d5f-3b1f8a1f6d10
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It stops within a second, if it still runs */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["ReadsOperationNotFound"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ReadsOperationServiceUnavailable"];
        };
    };
    claim: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "destinations": [
                 *         "orders"
                 *       ],
                 *       "lease_ms": 30000,
                 *       "max": 16
                 *     }
                 */
                "application/json": components["schemas"]["LeaseRequest"];
            };
        };
        responses: {
            /** @description Messages, or none */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Leases"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    complete_leases: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "body": {
                 *             "order": 7
                 *           },
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_CompleteItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    fail_leases: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "error": "no such account",
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_FailItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    extend_leases: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "lease_ms": 30000,
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_ExtendItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    requeue_leases: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_RequeueItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    consume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The name of the destination
                 * @example orders
                 */
                destination: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "consumer": "host-7:1234",
                 *       "max": 16
                 *     }
                 */
                "application/json": components["schemas"]["ConsumeRequest"];
            };
        };
        responses: {
            /** @description Messages, or none */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConsumedMessages"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    accept_deliveries: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_HeldItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    refuse_deliveries: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "error": "no paper",
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_RefuseItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    extend_deliveries: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_HeldItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    requeue_deliveries: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "token": "the token of a lease"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["LeaseItems_HeldItem"];
            };
        };
        responses: {
            /** @description One result for each item */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseResults"];
                };
            };
            400: components["responses"]["WorksBadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["WorksNotFound"];
            408: components["responses"]["WorksRequestTimeout"];
            409: components["responses"]["WorksConflict"];
            413: components["responses"]["WorksPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WorksServiceUnavailable"];
        };
    };
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The process is alive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description `ready`, and a line for each warning */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description The code of the reason, and a sentence: `redis_refuses_writes: …` */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The text format of Prometheus */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            404: components["responses"]["MetricsNotFound"];
        };
    };
    list_problems: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All codes of errors, as a page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
        };
    };
    show_problem: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The code of a problem
                 * @example invalid_field
                 */
                code: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What the code means, and what to do */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            404: components["responses"]["MetricsNotFound"];
        };
    };
    openapi: {
        parameters: {
            query?: {
                /** @description The version of OpenAPI: `3.1`, or `3.0` for generators that do not know 3.1. */
                version?: "3.1" | "3.0";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description This document */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            414: components["responses"]["URITooLong"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    docs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description This document, for people */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
        };
    };
    docs_script: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The script of the page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/javascript": string;
                };
            };
        };
    };
    docs_style: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The style of the page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/css": string;
                };
            };
        };
    };
    docs_start: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Starts the page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/javascript": string;
                };
            };
        };
    };
    publish_message: {
        parameters: {
            query?: never;
            header?: {
                /** @description The idempotency key, with or without quotes. A repeated message with the same key is not stored again. */
                "Idempotency-Key"?: string | null;
                /** @description The ordering key, percent-encoded. */
                "Reseq-Key"?: string | null;
                /** @description The id of the message, percent-encoded; a new UUID if absent. */
                "Reseq-Id"?: string | null;
                /** @description Reseq processes the message only after this time has passed, such as `15s`. */
                "Reseq-Delay"?: string | null;
                /** @description Reseq processes the message only after this instant (RFC 3339). */
                "Reseq-Due-At"?: string | null;
                /** @description The priority, 0 to 9: 9 goes first. */
                "Reseq-Priority"?: number | null;
                /** @description `true`: keep the output for 60 s, so that the result can be read. */
                "Reseq-Keep-Result"?: string | null;
                /** @description The most attempts to process the message, such as `3`; not more than the destination allows. */
                "Reseq-Attempts-Max"?: string | null;
                /** @description The longest wait after the first failed attempt, such as `15s`. */
                "Reseq-Backoff"?: string | null;
                /** @description The source of the message: `name="orders/3", position="0012", after="0011"`. */
                "Reseq-Source"?: string | null;
            };
            path: {
                /**
                 * @description The name of the topic
                 * @example all-orders
                 */
                topic: string;
            };
            cookie?: never;
        };
        /** @description The message, of any content type */
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            /** @description Redis has all copies */
            202: {
                headers: {
                    /** @description `true`, if nothing was stored, because all of it had been stored before */
                    "Idempotent-Replayed"?: boolean;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            400: components["responses"]["IngestsBadRequest"];
            401: components["responses"]["IngestsUnauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["IngestsNotFound"];
            408: components["responses"]["IngestsRequestTimeout"];
            409: components["responses"]["IngestsConflict"];
            413: components["responses"]["IngestsPayloadTooLarge"];
            414: components["responses"]["URITooLong"];
            415: components["responses"]["IngestsUnsupportedMediaType"];
            422: components["responses"]["IngestsUnprocessableEntity"];
            429: components["responses"]["IngestsTooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["IngestsServiceUnavailable"];
        };
    };
    send_messages: {
        parameters: {
            query?: never;
            header?: {
                /** @description The idempotency key, with or without quotes. A repeated message with the same key is not stored again. */
                "Idempotency-Key"?: string | null;
                /** @description The ordering key, percent-encoded. */
                "Reseq-Key"?: string | null;
                /** @description The id of the message, percent-encoded; a new UUID if absent. */
                "Reseq-Id"?: string | null;
                /** @description Reseq processes the message only after this time has passed, such as `15s`. */
                "Reseq-Delay"?: string | null;
                /** @description Reseq processes the message only after this instant (RFC 3339). */
                "Reseq-Due-At"?: string | null;
                /** @description The priority, 0 to 9: 9 goes first. */
                "Reseq-Priority"?: number | null;
                /** @description `true`: keep the output for 60 s, so that the result can be read. */
                "Reseq-Keep-Result"?: string | null;
                /** @description The most attempts to process the message, such as `3`; not more than the destination allows. */
                "Reseq-Attempts-Max"?: string | null;
                /** @description The longest wait after the first failed attempt, such as `15s`. */
                "Reseq-Backoff"?: string | null;
                /** @description The source of the message: `name="orders/3", position="0012", after="0011"`. */
                "Reseq-Source"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description One message, or a batch with one on each line */
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "body": {
                 *         "order": 7
                 *       },
                 *       "destinations": [
                 *         "orders"
                 *       ],
                 *       "headers": {
                 *         "x-tenant": "7"
                 *       },
                 *       "idempotency_key": "order-7",
                 *       "key": "acct-7"
                 *     }
                 */
                "application/json": components["schemas"]["NewMessage"];
                /** @example {"body":{"order":7},"destinations":["orders"],"headers":{"x-tenant":"7"},"idempotency_key":"order-7","key":"acct-7"} */
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description Redis has the message; or a line for each of a batch */
            202: {
                headers: {
                    /** @description `true`, if nothing was stored, because all of it had been stored before */
                    "Idempotent-Replayed"?: boolean;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                    "application/x-ndjson": string;
                };
            };
            400: components["responses"]["IngestsBatchBadRequest"];
            401: components["responses"]["IngestsBatchUnauthorized"];
            403: components["responses"]["IngestsBatchForbidden"];
            404: components["responses"]["IngestsBatchNotFound"];
            408: components["responses"]["IngestsBatchRequestTimeout"];
            409: components["responses"]["IngestsBatchConflict"];
            413: components["responses"]["IngestsBatchPayloadTooLarge"];
            414: components["responses"]["IngestsBatchURITooLong"];
            415: components["responses"]["IngestsBatchUnsupportedMediaType"];
            422: components["responses"]["IngestsBatchUnprocessableEntity"];
            429: components["responses"]["IngestsBatchTooManyRequests"];
            500: components["responses"]["IngestsBatchInternalServerError"];
            503: components["responses"]["IngestsBatchServiceUnavailable"];
        };
    };
}
