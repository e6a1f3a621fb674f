import { Inject, Logger, Module, SetMetadata } from "@nestjs/common";
import type { BeforeApplicationShutdown, DynamicModule, ModuleMetadata, OnApplicationBootstrap, OnApplicationShutdown } from "@nestjs/common";
import { DiscoveryModule, DiscoveryService, MetadataScanner, Reflector } from "@nestjs/core";
import { Reseq, Worker, type AnyOutput, type Handler, type ReseqOptions, type WorkerOptions } from "reseq";

/** Those of a `Worker`. The module has the client, and closes the worker. */
export type ReseqWorkerOptions = Omit<WorkerOptions, keyof ReseqOptions | "reseq" | "closeOn">;

interface Declared {
  destinations: string | string[];
  options: ReseqWorkerOptions;
}

export interface ReseqModuleAsyncOptions extends Pick<ModuleMetadata, "imports"> {
  inject?: unknown[];
  useFactory: (...dependencies: any[]) => ReseqOptions | Promise<ReseqOptions>;
}

const WORKER = "reseq:worker";
const OPTIONS = Symbol.for("reseq-nest.options");
const CLOSE_MS = 25_000;

/**
 * Makes the method the handler of a worker: `@ReseqWorker("invoices") async invoice({ body }: Message<Order>) { … }`. A method
 * that forgets its `return` does not compile. Where `delivery.kind` is `none`, write `@ReseqWorker<void>("mails")`.
 */
export function ReseqWorker<Result = AnyOutput>(destinations: string | string[], options: ReseqWorkerOptions = {}) {
  const declared: Declared = { destinations, options };
  return <Method extends Handler<any, Result>>(target: object, name: string | symbol, descriptor: TypedPropertyDescriptor<Method>): void => {
    SetMetadata(WORKER, declared)(target, name, descriptor);
  };
}

/**
 * Provides the client `Reseq`, starts the workers when the application has started, and closes them before it shuts down:
 * handlers that have begun finish, and their results are reported.
 */
@Module({})
export class ReseqModule implements OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown {
  readonly #logger = new Logger("Reseq");
  readonly #workers: { worker: Worker; closeMs: number }[] = [];

  constructor(
    @Inject(Reseq) private readonly reseq: Reseq,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(MetadataScanner) private readonly scanner: MetadataScanner,
    @Inject(Reflector) private readonly reflector: Reflector,
  ) {}

  static forRoot(options: ReseqOptions = {}): DynamicModule {
    return ReseqModule.forRootAsync({ useFactory: () => options });
  }

  static forRootAsync({ imports = [], inject = [], useFactory }: ReseqModuleAsyncOptions): DynamicModule {
    return {
      module: ReseqModule,
      global: true,
      imports: [DiscoveryModule, ...imports],
      providers: [
        { provide: OPTIONS, useFactory, inject: inject as never[] },
        { provide: Reseq, useFactory: (options: ReseqOptions) => new Reseq(options), inject: [OPTIONS] },
      ],
      exports: [Reseq],
    };
  }

  onApplicationBootstrap(): void {
    for (const wrapper of [...this.discovery.getProviders(), ...this.discovery.getControllers()]) {
      const prototype = (wrapper.metatype as { prototype?: Record<string, unknown> } | null)?.prototype;
      if (!prototype) continue;
      for (const name of this.scanner.getAllMethodNames(prototype)) {
        const method = prototype[name];
        const declared = typeof method === "function" ? this.reflector.get<Declared | undefined>(WORKER, method) : undefined;
        if (!declared) continue;
        if (!wrapper.isDependencyTreeStatic()) throw new Error(`${wrapper.name}.${name} is a ReseqWorker, but ${wrapper.name} is made anew for each request: give it the default scope`);
        this.#start(declared, (method as Handler).bind(wrapper.instance), `${wrapper.name}.${name}`);
      }
    }
  }

  /** The rest of the application still works: close what handlers need in `onApplicationShutdown`. */
  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all(this.#workers.map(({ worker, closeMs }) => worker.close({ timeoutMs: closeMs })));
  }

  async onApplicationShutdown(): Promise<void> {
    await this.reseq.flush();
    this.reseq.close();
  }

  #start({ destinations, options }: Declared, handler: Handler, name: string): void {
    const worker = new Worker(destinations, handler, { ...options, reseq: this.reseq });
    worker.on("error", (error) => this.#logger.error(`${name}: ${error.message}`));
    worker.on("failed", ({ destination, sequence }, error) => this.#logger.warn(`${name}: ${destination}/${sequence}: ${error.message}`));
    this.#workers.push({ worker, closeMs: options.closeMs ?? CLOSE_MS });
  }
}
